, wide AS (
    SELECT mean.dag, first.makespan AS first,
        max(mean.makespan) FILTER (WHERE grid = 'severe' AND way = 'followed') AS followed,
        max(mean.makespan) FILTER (WHERE grid = 'severe' AND way = 'staying') AS staying,
        max(mean.makespan) FILTER (WHERE grid = 'severe' AND way = 'migrating') AS migrating,
        max(mean.makespan) FILTER (WHERE grid = 'severe' AND way = 'if better') AS better,
        max(mean.makespan) FILTER (WHERE grid = 'severe' AND way = 'lazy') AS lazy_too,
        max(mean.makespan) FILTER (WHERE grid = 'idle' AND way = 'lazy') AS lazy,
        max(mean.makespan) FILTER (WHERE grid = 'idle' AND way = 'lazy:by=time') AS by_time,
        max(mean.makespan) FILTER (WHERE grid = 'short' AND way = 'migrating')
            / max(mean.makespan) FILTER (WHERE grid = 'short' AND way = 'staying') AS short,
        max(mean.makespan) FILTER (WHERE grid = 'mild' AND way = 'migrating')
            / max(mean.makespan) FILTER (WHERE grid = 'mild' AND way = 'staying') AS mild
    FROM mean JOIN first USING (dag) GROUP BY mean.dag, first.makespan
),
step AS (  -- how what remains changes from event to event, by what remained at first
    SELECT dag, seed, late,
        (remaining - lag(remaining) OVER w) / first_value(remaining) OVER w AS change,
        foreseen / lag(foreseen) OVER w AS rise,
        min(foreseen) OVER (PARTITION BY dag, seed ORDER BY event ROWS BETWEEN 1 FOLLOWING
            AND UNBOUNDED FOLLOWING) / foreseen AS fall,
        min(foreseen) OVER (PARTITION BY dag, seed ORDER BY event ROWS BETWEEN 1 FOLLOWING
            AND UNBOUNDED FOLLOWING) / lag(foreseen) OVER w AS back
    FROM event WHERE grid = 'severe' AND way = 'migrating'
    WINDOW w AS (PARTITION BY dag, seed ORDER BY event)
),
loop AS (  -- iterations of the loop, by how long the first takes on an idle grid
    SELECT way, avg(seconds) / first.least AS mean, max(seconds) / first.least AS longest,
        avg(seconds < 2 * first.least) AS held,
        sqrt(avg(seconds * seconds) - avg(seconds) * avg(seconds)) / first.least AS spread
    FROM iteration, (SELECT avg(seconds) AS least FROM iteration
        WHERE dag = 'DG' AND grid = 'idle' AND way = 'migrating') first
    WHERE dag = 'DG' AND grid = 'severe' GROUP BY way, first.least
),
chance AS (  -- lazy to the letter, if it takes any of the machines that are equally fast
    SELECT dag, avg(makespan) FILTER (WHERE algorithm = 'random') AS lazy,
        avg(makespan) FILTER (WHERE algorithm = 'heft') AS static
    FROM study_chance GROUP BY dag
),
paper AS (
    SELECT dag, adopt, avg(makespan) AS makespan, avg(ctime) AS ctime,
        avg(ends ->> 0) AS first FROM study_paper GROUP BY dag, adopt
)
SELECT
    (SELECT avg(followed / migrating) FROM wide WHERE dag <> 'DG') AS halved_followed,
    (SELECT avg(staying / migrating) FROM wide) AS halved_staying,
    (SELECT max(followed / migrating) FILTER (WHERE dag = 'DAG2')
        / max(followed / migrating) FILTER (WHERE dag = 'DAG1') FROM wide) AS larger_gains_more,
    (SELECT avg(migrating / first) FROM wide) AS final_by_first,
    (SELECT avg(better / first) FROM wide) AS final_if_better,
    (SELECT avg(makespan / first) FROM paper WHERE adopt = 'always') AS final_of_ga,
    (SELECT avg(makespan / first) FROM paper WHERE adopt = 'better')
        AS final_of_ga_if_better,
    (SELECT max(ctime / (makespan - first)) FROM paper WHERE adopt = 'always') AS rescheduling,
    (SELECT avg(wasted / (mean.makespan - first.makespan)) FROM mean JOIN first USING (dag)
        WHERE grid = 'severe' AND way = 'migrating') AS replicated,
    (SELECT avg(change <= 0) FROM step WHERE dag <> 'DG') AS falls,
    (SELECT -avg(drop_) FROM (SELECT min(change) AS drop_ FROM step WHERE dag <> 'DG'
        GROUP BY dag, seed)) AS abrupt,
    (SELECT avg(late > 0) FROM step WHERE dag <> 'DG' AND change > 0.1) AS late_rises,
    (SELECT avg(remaining) FILTER (WHERE iteration > 1) / avg(remaining) FILTER (WHERE iteration = 1)
        FROM event WHERE dag = 'DG' AND grid = 'severe' AND way = 'migrating') AS stays,
    (SELECT avg(peaks) FROM (SELECT total(rise > 1.3) AS peaks FROM step WHERE dag <> 'DG'
        GROUP BY dag, seed)) AS peaks,
    (SELECT avg(fall < 0.9) FROM step WHERE dag <> 'DG' AND rise > 1.3) AS peaks_fall,
    (SELECT avg(back) FROM step WHERE dag <> 'DG' AND rise > 1.3) AS peaks_back,
    (SELECT held FROM loop WHERE way = 'migrating') AS held,
    (SELECT held FROM loop WHERE way = 'staying') AS held_staying,
    (SELECT spread FROM loop WHERE way = 'migrating')
        / (SELECT spread FROM loop WHERE way = 'staying') AS spread,
    (SELECT mean FROM loop WHERE way = 'migrating') AS iteration,
    (SELECT mean FROM loop WHERE way = 'staying') AS iteration_staying,
    (SELECT avg(lazy / first) FROM wide) AS lazy_by_static,
    (SELECT min(by_time / first) FROM wide) AS by_time_by_static,
    (SELECT avg(lazy / static) FROM chance) AS chance_by_static,
    (SELECT avg(lazy / migrating) FROM wide) AS lazy_by_migrating,
    (SELECT avg(chance.lazy / migrating) FROM chance JOIN wide USING (dag) WHERE dag <> 'DG')
        AS chance_by_migrating,
    (SELECT avg(lazy_too / migrating) FROM wide) AS lazy_disturbed_too,
    (SELECT avg(mild) FROM wide) AS mild,
    (SELECT avg(short) FROM wide WHERE dag <> 'DG') AS short
