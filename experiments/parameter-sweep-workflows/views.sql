WITH
-- What the questions are asked of: this stands before each SELECT.
-- Scheduling effectiveness: the makespan as a share of what shuffle takes on the same graph.
effect AS (
  SELECT pst, rss, rrt, rsr, adps, graph, algorithm, 100.0 * makespan
    / max(makespan) FILTER (WHERE algorithm = 'shuffle')
      OVER (PARTITION BY pst, rss, rrt, rsr, adps, graph) AS ase
  FROM study_factors
),
-- The five experiments of Table I, each with its factor; the default belongs to all of them.
factors AS (
  SELECT '#PST' AS factor, pst AS value, graph, algorithm, ase FROM effect
  WHERE rss = 5 AND rrt = 5 AND rsr = 5 AND adps = 2
  UNION ALL SELECT 'RSS', rss, graph, algorithm, ase FROM effect
  WHERE pst = 5 AND rrt = 5 AND rsr = 5 AND adps = 2
  UNION ALL SELECT 'RRT', rrt, graph, algorithm, ase FROM effect
  WHERE pst = 5 AND rss = 5 AND rsr = 5 AND adps = 2
  UNION ALL SELECT 'RSR', rsr, graph, algorithm, ase FROM effect
  WHERE pst = 5 AND rss = 5 AND rrt = 5 AND adps = 2
  UNION ALL SELECT 'ADPS', adps, graph, algorithm, ase FROM effect
  WHERE pst = 5 AND rss = 5 AND rrt = 5 AND rsr = 5
),
shapes AS (
  SELECT shape, graph, algorithm, makespan, 100.0 * makespan
    / max(makespan) FILTER (WHERE algorithm = 'shuffle') OVER (PARTITION BY shape, graph) AS ase
  FROM study_topologies
),
-- Who is compared: the paper's algorithms, with xDCP that goes round again while a round gains 5%
-- or a tenth, or of one round.
contests AS (
  SELECT 'rounds' AS contest, factors.* FROM factors WHERE algorithm IN ('xdcp', 'm-s', 'pm-s')
  UNION ALL
  SELECT 'tenth', factors.* FROM factors WHERE algorithm IN ('xdcp:threshold=0.1', 'm-s', 'pm-s')
  UNION ALL
  SELECT 'once', factors.* FROM factors WHERE algorithm IN ('xdcp:threshold=1', 'm-s', 'pm-s')
),
-- How often (in %) each is the best of them; if several are, all of these.
beaten AS (
  SELECT contest, factor, value, graph, algorithm,
    CASE WHEN ase = min(ase) OVER (PARTITION BY contest, factor, value, graph)
      THEN 100.0 ELSE 0.0 END AS bdt
  FROM contests
),
shapes_beaten AS (
  SELECT shape, graph, algorithm,
    CASE WHEN ase = min(ase) OVER (PARTITION BY shape, graph) THEN 100.0 ELSE 0.0 END AS bdt
  FROM shapes WHERE algorithm IN ('xdcp', 'm-s', 'pm-s')
),
-- By how many % of shuffle's makespan the regression line rises from its left to its right end.
trends AS (
  SELECT factor, algorithm, (max(value) - min(value))
    * (count(*) * sum(value * ase) - sum(value) * sum(ase))
    / (count(*) * sum(value * value) - sum(value) * sum(value)) AS rise
  FROM factors GROUP BY factor, algorithm
),
-- Of each case of figure 9 (a factor's value), who is the best most often.
winners AS (
  SELECT contest, factor, value, algorithm, avg(bdt) AS bdt,
    rank() OVER (PARTITION BY contest, factor, value ORDER BY avg(bdt) DESC) AS place
  FROM beaten GROUP BY contest, factor, value, algorithm
),
means AS (SELECT shape, algorithm, avg(ase) AS ase FROM shapes GROUP BY shape, algorithm)
