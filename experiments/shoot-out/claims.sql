SELECT
    (SELECT 100.0 * avg(best <= least * (1 + 1e-9)) FROM graphs) AS proved,
    (SELECT count(*) FROM runs WHERE makespan < least * (1 - 1e-9)) AS below,
    (SELECT 100.0 * avg(gap = 0) FROM runs WHERE algorithm = 'ga' AND least_is = 'optimum')
        AS ga_optimal,
    (SELECT 100.0 * avg(gap = 0) FROM runs WHERE algorithm = 'heft' AND least_is = 'optimum')
        AS heft_optimal,
    (SELECT 100.0 * avg(gap = 0) FROM runs WHERE algorithm = 'cp-sat' AND least_is = 'optimum')
        AS cp_sat_optimal,
    (SELECT avg(gap) FROM runs WHERE algorithm = 'ga' AND least_is = 'bound') AS ga_traces,
    (SELECT avg(gap) FROM runs WHERE algorithm = 'heft' AND least_is = 'bound') AS heft_traces,
    (SELECT 100.0 * avg(best) FROM beside WHERE algorithm = 'heft') AS heft_best,
    (SELECT 100.0 * max(best) FROM (SELECT avg(best) AS best FROM beside
        WHERE algorithm <> 'heft' GROUP BY algorithm)) AS other_best,
    (SELECT 100.0 * avg(worse) FROM duels WHERE one = 'heft' AND other = 'cpop') AS heft_cpop,
    (SELECT 100.0 * (avg(better) - avg(worse)) FROM duels WHERE one = 'peft' AND other = 'heft'
        AND kind IN ('workflows, cluster', 'workflows, Grid')) AS peft_heft,
    (SELECT 100.0 * (avg(better) - avg(worse)) FROM duels WHERE one = 'sufferage'
        AND other = 'min-min' AND kind LIKE 'workflows%') AS sufferage_min_min,
    (SELECT 100.0 * (avg(better) - avg(worse)) FROM duels WHERE one = 'max-min'
        AND other = 'min-min') AS max_min,
    (SELECT avg(ratio) FROM duels WHERE one = 'lazy' AND other = 'ga' AND kind = 'workflows, Grid')
        AS lazy_grid,
    (SELECT max(ratio) FROM duels WHERE one = 'lazy' AND other = 'ga' AND kind = 'workflows, Grid')
        AS lazy_most,
    (SELECT 100.0 * avg(better) FROM duels WHERE one = 'lazy' AND other = 'heft') AS lazy_better,
    (SELECT count(*) FROM duels WHERE one = 'ga' AND other IN lists AND worse) AS ga_worse,
    (SELECT 100.0 * avg(better) FROM duels WHERE one = 'ga' AND other = 'anneal') AS ga_anneal,
    (SELECT 100.0 * avg(worse) FROM duels WHERE one = 'ga' AND other = 'anneal') AS anneal_ga,
    (SELECT 100.0 * avg(worse) FROM duels WHERE one = 'ga-2005' AND other = 'heft') AS ga_2005_heft,
    (SELECT avg(ratio) FROM duels WHERE one = 'random' AND other = 'ga' AND kind = 'workflows, Grid')
        AS random_grid,
    (SELECT 1000 * avg(ctime) FROM runs WHERE algorithm = 'ga') AS ga_ms
