WITH one AS MATERIALIZED (  -- a name for each way to run a workflow
    SELECT dag, grid, seed, makespan, wasted, times, iterations, remaining, ends, late,
        CASE algorithm WHEN 'heft' THEN 'followed' WHEN 'hybrid:contract=1e9' THEN 'staying'
            WHEN 'hybrid:adopt=always' THEN 'migrating' WHEN 'hybrid' THEN 'if better'
            ELSE algorithm END AS way
    FROM study_runs
),
traced AS (  -- the runs whose scheduling events are looked at
    SELECT dag || grid || way || seed AS run, * FROM one
    WHERE way IN ('migrating', 'staying', 'if better') AND grid IN ('idle', 'severe')
),
at_ AS MATERIALIZED (SELECT run, key, value FROM traced, json_each(times)),
of_ AS MATERIALIZED (SELECT run, key, value FROM traced, json_each(iterations)),
left_ AS MATERIALIZED (SELECT run, key, value FROM traced, json_each(remaining)),
end_ AS MATERIALIZED (SELECT run, key, value FROM traced, json_each(ends)),
late_ AS MATERIALIZED (SELECT run, key, value FROM traced, json_each(late)),
event AS MATERIALIZED (  -- each scheduling event
    SELECT dag, grid, way, seed, makespan, key AS event, at_.value AS time, of_.value AS iteration,
        left_.value AS remaining, end_.value AS foreseen, late_.value AS late
    FROM traced JOIN at_ USING (run) JOIN of_ USING (run, key) JOIN left_ USING (run, key)
        JOIN end_ USING (run, key) JOIN late_ USING (run, key)
),
began AS (  -- each iteration; a workflow without a loop has one
    SELECT dag, grid, way, seed, makespan, iteration, min(time) AS begin
    FROM event GROUP BY dag, grid, way, seed, makespan, iteration
),
iteration AS MATERIALIZED (
    SELECT dag, grid, way, seed, iteration, begin, lead(begin, 1, makespan)
        OVER (PARTITION BY dag, grid, way, seed ORDER BY iteration) - begin AS seconds
    FROM began
),
mean AS MATERIALIZED (
    SELECT dag, grid, way, avg(makespan) AS makespan, avg(wasted) AS wasted
    FROM one GROUP BY dag, grid, way
),
first AS (  -- what a static plan promises
    SELECT dag, avg(makespan) AS makespan FROM one
    WHERE grid = 'idle' AND way = 'migrating' GROUP BY dag
)
