-- What the questions are asked of: this stands before each SELECT, beside the table optima.
WITH places (machines, kind, place) AS (
    VALUES ('identical:4', 'traces, 4 alike', 17), ('identical:16', 'traces, 16 alike', 18),
        ('traces/cluster.toml', 'traces, cluster', 19), ('traces/grid.toml', 'traces, Grid', 20)
),
instances AS (  -- each algorithm on each instance, with what no plan can be shorter than
    SELECT 'STG, ' || processors || ' processors' AS kind, processors AS place,
        'optimum' AS least_is, s.graph || ' on ' || processors AS instance,
        algorithm, makespan, ctime, optimum_or_best_low AS least
    FROM study_stg s JOIN optima o USING (processors)
    WHERE o.graph = s.graph || '.stg' AND high_if_open IS NULL  -- of three only bounds are known
    UNION ALL
    SELECT kind, place, 'bound', trace || ' on ' || machines, algorithm, makespan, ctime,
        max(bound) OVER (PARTITION BY trace, machines)
    FROM study_traces JOIN places USING (machines)
),
runs AS (  -- with how far above that they are, in %
    SELECT kind, place, least_is, instance, makespan, ctime,
        substr(algorithm, 1, instr(algorithm || ':', ':') - 1) AS algorithm,
        least, max(0, round(100 * (makespan / least - 1), 4)) AS gap
    FROM instances
),
lists (algorithm) AS (  -- what plans in milliseconds by looking at times
    VALUES ('heft'), ('cpop'), ('peft'), ('dcp'), ('xdcp'), ('min-min'), ('max-min'), ('sufferage')
),
beside AS (  -- each of them beside the best of them
    SELECT kind, instance, algorithm, makespan, gap,
        makespan <= min(makespan) OVER (PARTITION BY instance) * (1 + 1e-9) AS best
    FROM runs WHERE algorithm IN lists
),
duels AS (  -- one algorithm against another
    SELECT a.kind, a.instance, a.algorithm AS one, b.algorithm AS other,
        a.makespan < b.makespan * (1 - 1e-9) AS better, a.makespan > b.makespan * (1 + 1e-9) AS worse,
        a.makespan / b.makespan AS ratio
    FROM runs a JOIN runs b USING (instance)
)
