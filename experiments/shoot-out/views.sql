-- What the questions are asked of: this stands before each SELECT.
WITH places (machines, kind, place) AS (
    VALUES ('identical:4', 'workflows, 4 alike', 17), ('identical:16', 'workflows, 16 alike', 18),
        ('traces/cluster.toml', 'workflows, cluster', 19), ('traces/grid.toml', 'workflows, Grid', 20)
),
graphs AS (  -- each algorithm on each graph, with the bound and the makespan of the best of them
    SELECT *, max(bound) OVER (PARTITION BY graph, processors) AS least,
        min(makespan) OVER (PARTITION BY graph, processors) AS best
    FROM study_stg
),
instances AS (  -- each algorithm on each instance, with what no plan can be shorter than
    SELECT 'graphs, ' || processors || ' processors' AS kind, processors AS place,
        'optimum' AS least_is, graph || ' on ' || processors AS instance,
        algorithm, makespan, ctime, least
    FROM graphs
    WHERE best <= least * (1 + 1e-9)  -- the optimum is proved
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
