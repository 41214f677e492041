-- A number for each claim: the columns of the one row that this finds.
, per_graph AS (
  SELECT pst, rss, rrt, rsr, adps, graph,
    min(ase) FILTER (WHERE algorithm IN ('xdcp', 'm-s', 'pm-s')) AS three,
    max(ase) FILTER (WHERE algorithm = 'heft') AS heft,
    max(ase) FILTER (WHERE algorithm LIKE 'ga:%') AS ga
  FROM effect GROUP BY pst, rss, rrt, rsr, adps, graph
),
per_shape AS (
  SELECT shape, graph,
    min(ase) FILTER (WHERE algorithm IN ('xdcp', 'm-s', 'pm-s')) AS three,
    max(ase) FILTER (WHERE algorithm = 'm-s') AS ms,
    max(ase) FILTER (WHERE algorithm = 'pm-s') AS pms,
    max(ase) FILTER (WHERE algorithm = 'heft') AS heft,
    max(ase) FILTER (WHERE algorithm LIKE 'ga:%') AS ga
  FROM shapes GROUP BY shape, graph
),
-- By how much a shape's ASE is above that of another, for each algorithm of the paper.
apart AS (
  SELECT b.shape AS shape, a.shape AS other, b.algorithm AS algorithm, b.ase - a.ase AS more
  FROM means a JOIN means b ON a.algorithm = b.algorithm
  WHERE a.algorithm IN ('xdcp', 'xdcp:threshold=1', 'm-s', 'pm-s')
),
in_out AS (
  SELECT algorithm, avg(more) AS more FROM apart
  WHERE shape || ' ' || other IN ('ITG(a) OTG(a)', 'ITG(b) OTG(b)', 'DITG(a) DOTG(a)',
                                  'DITG(b) DOTG(b)')
  GROUP BY algorithm
),
-- By how many of 100 graphs more than pM-S xDCP is the best.
ahead AS (
  SELECT contest, factor, value,
    avg(bdt) FILTER (WHERE algorithm LIKE 'xdcp%') - avg(bdt) FILTER (WHERE algorithm = 'pm-s')
      AS more
  FROM beaten GROUP BY contest, factor, value
),
-- Where all algorithms were asked: the experiment with ADPS.
average AS (
  SELECT algorithm, avg(ase) AS ase FROM factors WHERE factor = 'ADPS' GROUP BY algorithm
)
SELECT
  (SELECT makespan FROM study_example WHERE algorithm = 'm-s') AS example_ms,
  (SELECT makespan FROM study_example WHERE algorithm = 'pm-s') AS example_pms,

  (SELECT rise FROM trends WHERE factor = '#PST' AND algorithm = 'm-s') AS pst_ms,
  (SELECT rise FROM trends WHERE factor = '#PST' AND algorithm = 'pm-s') AS pst_pms,
  (SELECT rise FROM trends WHERE factor = '#PST' AND algorithm = 'xdcp') AS pst_xdcp,
  (SELECT rise FROM trends WHERE factor = 'RSS' AND algorithm = 'm-s') AS rss_ms,
  (SELECT rise FROM trends WHERE factor = 'RSS' AND algorithm = 'pm-s') AS rss_pms,
  (SELECT rise FROM trends WHERE factor = 'RSS' AND algorithm = 'xdcp') AS rss_xdcp,
  (SELECT rise FROM trends WHERE factor = 'RRT' AND algorithm = 'm-s') AS rrt_ms,
  (SELECT rise FROM trends WHERE factor = 'RRT' AND algorithm = 'pm-s') AS rrt_pms,
  (SELECT rise FROM trends WHERE factor = 'RRT' AND algorithm = 'xdcp') AS rrt_xdcp,
  (SELECT rise FROM trends WHERE factor = 'RSR' AND algorithm = 'm-s') AS rsr_ms,
  (SELECT rise FROM trends WHERE factor = 'RSR' AND algorithm = 'pm-s') AS rsr_pms,
  (SELECT rise FROM trends WHERE factor = 'RSR' AND algorithm = 'xdcp') AS rsr_xdcp,
  (SELECT rise FROM trends WHERE factor = 'ADPS' AND algorithm = 'm-s') AS adps_ms,
  (SELECT rise FROM trends WHERE factor = 'ADPS' AND algorithm = 'pm-s') AS adps_pms,
  (SELECT rise FROM trends WHERE factor = 'ADPS' AND algorithm = 'xdcp') AS adps_xdcp,

  (SELECT rise FROM trends WHERE factor = '#PST' AND algorithm = 'xdcp:threshold=0.1')
    AS pst_xdcp_tenth,
  (SELECT rise FROM trends WHERE factor = 'ADPS' AND algorithm = 'xdcp:threshold=0.1')
    AS adps_xdcp_tenth,
  (SELECT rise FROM trends WHERE factor = '#PST' AND algorithm = 'xdcp:threshold=1')
    AS pst_xdcp_once,
  (SELECT rise FROM trends WHERE factor = 'ADPS' AND algorithm = 'xdcp:threshold=1')
    AS adps_xdcp_once,

  (SELECT count(*) FROM winners
     WHERE contest = 'rounds' AND algorithm = 'pm-s' AND place = 1) AS pms_first,
  (SELECT count(*) FROM winners
     WHERE contest = 'tenth' AND algorithm = 'pm-s' AND place = 1) AS pms_first_tenth,
  (SELECT count(*) FROM winners
     WHERE contest = 'once' AND algorithm = 'pm-s' AND place = 1) AS pms_first_once,
  (SELECT count(*) FROM (SELECT sum(algorithm = 'm-s') AS ms, count(*) AS first FROM winners
     WHERE place = 1 GROUP BY contest, factor, value) AS best WHERE ms = 1 AND first = 1) AS ms_first,
  (SELECT 100.0 * count(*) FILTER (WHERE pms <= xdcp) / count(*) FROM (
     SELECT max(ase) FILTER (WHERE algorithm = 'pm-s') AS pms,
       max(ase) FILTER (WHERE algorithm = 'xdcp') AS xdcp
     FROM shapes WHERE shape NOT LIKE '%size' GROUP BY shape, graph) AS rivals) AS pms_shapes,
  (SELECT more FROM ahead
     WHERE contest = 'rounds' AND factor = '#PST' AND value = 3) AS few_layers,
  (SELECT more FROM ahead
     WHERE contest = 'tenth' AND factor = '#PST' AND value = 3) AS few_layers_tenth,
  (SELECT more FROM ahead
     WHERE contest = 'once' AND factor = '#PST' AND value = 3) AS few_layers_once,
  (SELECT more FROM ahead
     WHERE contest = 'rounds' AND factor = 'RSR' AND value = 1) AS short_queues,
  (SELECT more FROM ahead
     WHERE contest = 'tenth' AND factor = 'RSR' AND value = 1) AS short_queues_tenth,
  (SELECT more FROM ahead
     WHERE contest = 'once' AND factor = 'RSR' AND value = 1) AS short_queues_once,
  (SELECT more FROM ahead
     WHERE contest = 'rounds' AND factor = 'RRT' AND value = 10) AS unequal_resources,
  (SELECT more FROM ahead
     WHERE contest = 'tenth' AND factor = 'RRT' AND value = 10) AS unequal_resources_tenth,
  (SELECT more FROM ahead
     WHERE contest = 'once' AND factor = 'RRT' AND value = 10) AS unequal_resources_once,
  (SELECT more FROM ahead
     WHERE contest = 'rounds' AND factor = 'ADPS' AND value = 1) AS one_dependency,
  (SELECT more FROM ahead
     WHERE contest = 'tenth' AND factor = 'ADPS' AND value = 1) AS one_dependency_tenth,
  (SELECT more FROM ahead
     WHERE contest = 'once' AND factor = 'ADPS' AND value = 1) AS one_dependency_once,

  (SELECT more FROM in_out WHERE algorithm = 'm-s') AS in_out_ms,
  (SELECT more FROM in_out WHERE algorithm = 'pm-s') AS in_out_pms,
  (SELECT more FROM in_out WHERE algorithm = 'xdcp') AS in_out_xdcp,
  (SELECT more FROM in_out WHERE algorithm = 'xdcp:threshold=1') AS in_out_xdcp_once,
  (SELECT max(abs(more)) FROM apart WHERE shape = 'DITG(a)' AND other = 'DOTG(a)'
     AND algorithm IN ('xdcp', 'm-s', 'pm-s')) AS dense_a,
  (SELECT avg(more) FROM apart
     WHERE shape = 'DITG(b)' AND other = 'DOTG(b)' AND algorithm NOT LIKE 'xdcp%') AS dense_b,
  (SELECT more FROM apart
     WHERE shape = 'DITG(b)' AND other = 'DOTG(b)' AND algorithm = 'xdcp') AS dense_b_xdcp,
  (SELECT avg(more) FROM apart WHERE algorithm NOT LIKE 'xdcp%'
     AND shape || ' ' || other IN ('OTG(b) OTG(a)', 'ITG(b) ITG(a)')) AS fewer_layers,
  (SELECT count(*) FROM per_shape
     WHERE shape IN ('PTG', 'OTG(a)', 'OTG(b)') AND ms <> pms) AS one_parent,
  (SELECT max(abs(more)) FROM apart WHERE algorithm IN ('xdcp', 'm-s', 'pm-s')
     AND shape || ' ' || other IN ('OTG(b), printed size OTG(b)', 'ITG(b), printed size ITG(b)')
  ) AS printed_size,

  (SELECT 100.0 * (1 - max(ase) FILTER (WHERE algorithm = 'xdcp')
     / max(ase) FILTER (WHERE algorithm = 'xdcp:threshold=1')) FROM average) AS further_rounds,
  (SELECT 100.0 * (1 - max(ase) FILTER (WHERE algorithm = 'xdcp')
     / max(ase) FILTER (WHERE algorithm = 'dcp')) FROM average) AS shuffled_start,
  (SELECT ase FROM average WHERE algorithm = 'xdcp') AS words,
  (SELECT ase FROM average WHERE algorithm = 'xdcp:formulas=printed') AS printed,

  (SELECT 100.0 * count(*) FILTER (WHERE heft < three) / count(*) FROM per_graph) AS heft_first,
  (SELECT 100.0 * (1 - avg(heft) / avg(three)) FROM per_graph) AS heft_gain,
  (SELECT 100.0 * (1 - avg(ga) / avg(three)) FROM per_graph) AS ga_gain,
  (SELECT 100.0 * count(*) FILTER (WHERE heft < three) / count(*) FROM per_shape)
    AS heft_first_shapes,
  (SELECT 100.0 * (1 - avg(heft) / avg(three)) FROM per_shape) AS heft_gain_shapes,
  (SELECT 100.0 * (1 - avg(ga) / avg(three)) FROM per_shape) AS ga_gain_shapes,
  (SELECT count(*) FROM per_graph WHERE ga > heft * 1.000001) AS ga_longer
