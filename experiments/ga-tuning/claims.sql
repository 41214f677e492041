-- A number for each claim, in one row.
WITH mean AS (  -- of each setting, over its repeats
    SELECT population, crossover, mutation, generations, steady, scaling, elitist,
        avg(precision) AS precision, avg(precision_last) AS last,
        avg(improvement) AS improvement, avg(visited) AS visited
    FROM study_tuning GROUP BY population, crossover, mutation, generations, steady, scaling, elitist
),
good AS (  -- those that are as recommended, but for what is asked; any crossover probability
    SELECT * FROM mean WHERE mutation = 0.001 AND steady = 20 AND elitist = 'true'
),
last AS (  -- the longest searches
    SELECT * FROM mean WHERE generations = (SELECT max(generations) FROM mean)
),
pairs AS (  -- settings that differ in one thing alone
    SELECT 'elitist' AS what, o.precision AS before, n.precision AS after,
        o.last AS last_before, n.last AS last_after, o.improvement AS gained, n.improvement AS gains
    FROM mean o JOIN mean n USING (population, crossover, mutation, generations, steady, scaling)
    WHERE o.elitist = 'false' AND n.elitist = 'true'
    UNION ALL
    SELECT 'scaling', o.precision, n.precision, o.last, n.last, o.improvement, n.improvement
    FROM mean o JOIN mean n USING (population, crossover, mutation, generations, steady, elitist)
    WHERE o.scaling = 1 AND n.scaling = 2
    UNION ALL
    SELECT 'steady', o.precision, n.precision, o.last, n.last, o.improvement, n.improvement
    FROM mean o JOIN mean n USING (population, crossover, mutation, generations, scaling, elitist)
    WHERE o.steady = 10 AND n.steady = 20
),
paper AS (  -- what the paper recommends, with what it leaves open
    SELECT r.workflow, r.machines, wan, mutation, steady,
        100 * (avg(r.makespan) / best.makespan - 1) AS precision,
        100 * (avg(r.makespan) / fast.makespan - 1) AS precision_16,  -- by the 16 of 3 GHz
        max(improvement) AS improvement, avg(visited) AS visited
    FROM study_recommended r JOIN study_optimum best USING (workflow, machines)
        JOIN study_optimum fast ON fast.workflow = r.workflow AND fast.machines = 'fast.toml'
    GROUP BY r.workflow, r.machines, wan, mutation, steady
),
open_ AS (  -- with a fast network, and 20% as the steady state
    SELECT * FROM paper WHERE wan > 1e6 AND steady = 20
),
printed AS (
    SELECT * FROM open_ WHERE workflow = 'wien2k:kpoints=50' AND machines = 'grid.toml'
        AND mutation = 0.001
),
shared AS (  -- 45 genes: a k-point is one
    SELECT * FROM open_ WHERE workflow LIKE '%shared%' AND machines = 'grid.toml'
        AND mutation = 0.001
),
best_rate AS (  -- the best mutation probability for each number of genes and of individuals
    SELECT ln(genes) AS genes, ln(population) AS population, ln(mutation) AS rate,
        mutation * genes AS mutants
    FROM (SELECT genes, population, mutation, rank() OVER (PARTITION BY genes, population
              ORDER BY avg(makespan)) AS place
          FROM study_mutation GROUP BY genes, population, mutation) WHERE place = 1
),
slope AS (  -- how it goes with either: -1 is inversely proportional
    SELECT
        (count(*) * sum(genes * rate) - sum(genes) * sum(rate))
            / (count(*) * sum(genes * genes) - sum(genes) * sum(genes)) AS by_genes,
        (count(*) * sum(population * rate) - sum(population) * sum(rate))
            / (count(*) * sum(population * population) - sum(population) * sum(population))
            AS by_population
    FROM best_rate
),
fit AS (
    SELECT const, scaling, elitist, avg(precision) AS precision, avg(improvement) AS improvement
    FROM study_fitness GROUP BY const, scaling, elitist
),
bound AS (SELECT machines, max(bound) AS bound FROM study_sequel GROUP BY machines),
sequel AS (  -- how far above the lower bound, in %
    SELECT machines, algorithm, evaluations, visited, avg(makespan) AS makespan,
        100 * (avg(makespan) / bound.bound - 1) AS gap
    FROM study_sequel JOIN bound USING (machines) GROUP BY machines, algorithm
)
SELECT
    (SELECT avg(precision) FILTER (WHERE population = 50)
        - avg(precision) FILTER (WHERE population = 150) FROM good
        WHERE scaling = 2 AND generations = (SELECT max(generations) FROM mean)) AS population_50,
    (SELECT avg(precision) FILTER (WHERE population = 100)
        - avg(precision) FILTER (WHERE population = 200) FROM good
        WHERE scaling = 2 AND generations = (SELECT max(generations) FROM mean)) AS population_100,
    (SELECT min(precision) FILTER (WHERE population = 50) - min(precision) FROM mean)
        AS population_small,
    (SELECT avg(visited) FROM mean) AS visited,
    (SELECT count(*) FROM study_tuning WHERE precision <= 25) AS good_plans,
    (SELECT max(improvement) FROM study_tuning) AS improvement,
    (SELECT max(improvement) FROM paper WHERE workflow = 'wien2k:kpoints=20' AND wan < 1e6)
        AS improvement_slow,
    (SELECT avg(before - after) FROM pairs WHERE what = 'steady') AS steady_10,
    (SELECT max(precision) FILTER (WHERE steady = 20) - max(precision) FILTER (WHERE steady = 100)
        FROM paper WHERE workflow = 'wien2k:kpoints=50' AND machines = 'grid.toml' AND wan > 1e6
        AND mutation = 0.001) AS steady_20,
    (SELECT avg(precision) FILTER (WHERE crossover = 0.4)
        - avg(precision) FILTER (WHERE crossover = 1) FROM good WHERE scaling = 2
        AND generations = (SELECT min(generations) FROM mean)) AS crossover,
    (SELECT avg(precision) FILTER (WHERE crossover = 0.4)
        - avg(precision) FILTER (WHERE crossover = 1) FROM good WHERE scaling = 2
        AND generations = (SELECT max(generations) FROM mean)) AS crossover_late,
    (SELECT avg(precision) FILTER (WHERE mutation = 0.1)
        - avg(precision) FILTER (WHERE mutation = 0.001) FROM last) AS mutation,
    (SELECT avg(precision) FILTER (WHERE mutation = 0.01)
        - avg(precision) FILTER (WHERE mutation = 0.001) FROM last
        WHERE steady = 20 AND scaling = 2 AND elitist = 'true') AS mutation_middle,
    (SELECT max(precision) FILTER (WHERE mutation < 0.0001)
        - max(precision) FILTER (WHERE mutation = 0.001)
        FROM open_ WHERE workflow = 'wien2k:kpoints=50' AND machines = 'grid.toml')
        AS mutation_percent,
    (SELECT by_genes FROM slope) AS mutation_by_genes,
    (SELECT by_population FROM slope) AS mutation_by_population,
    (SELECT avg(mutants) FROM best_rate) AS mutants,
    (SELECT avg(before - after) FROM pairs WHERE what = 'scaling') AS scaling,
    (SELECT max(s.improvement / n.improvement) FROM fit s JOIN fit n USING (const, elitist)
        WHERE s.scaling = 2 AND n.scaling = 1) AS scaling_fold,
    (SELECT max(precision) FILTER (WHERE const = 100) - max(precision) FILTER (WHERE const = 1)
        FROM fit WHERE scaling = 1 AND elitist = 'false') AS const_unscaled,
    (SELECT max(precision) FILTER (WHERE const = 100) - max(precision) FILTER (WHERE const = 1)
        FROM fit WHERE scaling = 2 AND elitist = 'true') AS const_scaled,
    (SELECT 100 * avg((before - after) / before) FROM pairs WHERE what = 'elitist') AS elitist,
    (SELECT 100 * avg(last_before / last_after - 1) FROM pairs WHERE what = 'elitist')
        AS elitist_last,
    (SELECT 100 * (avg(gains) / avg(gained) - 1) FROM pairs WHERE what = 'elitist')
        AS elitist_gains,
    (SELECT 100.0 * avg(after < before) FROM pairs WHERE what = 'elitist') AS elitist_often,
    (SELECT precision FROM printed) AS recommended,
    (SELECT precision_16 FROM printed) AS recommended_16,
    (SELECT precision_16 FROM open_ WHERE workflow = 'wien2k:kpoints=50'
        AND machines = 'grid.toml' AND mutation < 0.0001) AS recommended_16_percent,
    (SELECT precision_16 FROM open_ WHERE workflow = 'wien2k:kpoints=50'
        AND machines = 'slow.toml' AND mutation = 0.001) AS recommended_16_slow,
    (SELECT precision FROM open_ WHERE workflow = 'wien2k:kpoints=20'
        AND machines = 'grid.toml' AND mutation = 0.001) AS recommended_45,
    (SELECT precision FROM shared) AS recommended_shared,
    (SELECT visited FROM printed) AS recommended_visited,
    (SELECT visited FROM shared) AS recommended_shared_visited,
    (SELECT visited * 0.007 / 60 FROM printed) AS recommended_minutes,
    (SELECT 1e6 * sum(ctime) / sum(visited) FROM study_tuning) AS microseconds,
    (SELECT sum(ctime) / 60 FROM study_tuning) AS minutes,
    (SELECT 100 * abs(min(makespan) / 109.03653393658578 - 1) FROM study_sequel
        WHERE machines = 'grid-2005') AS optimum,
    (SELECT gap FROM sequel WHERE machines = 'grid-2005' AND algorithm = 'heft') AS heft,
    (SELECT gap FROM sequel WHERE machines = 'grid-2005' AND algorithm LIKE 'ga-2005%'
        ORDER BY visited DESC LIMIT 1) AS ga_2005,
    (SELECT gap FROM sequel WHERE machines = 'grid-2005' AND algorithm = 'min-min') AS min_min,
    (SELECT gap FROM sequel WHERE machines = 'grid-2005' AND algorithm LIKE 'ga-2005%'
        ORDER BY visited LIMIT 1) AS ga_2005_few,
    (SELECT gap FROM sequel WHERE machines = 'fast.toml' AND algorithm = 'heft') AS heft_16,
    (SELECT gap FROM sequel WHERE machines = 'fast.toml' AND algorithm LIKE 'ga:%'
        ORDER BY evaluations DESC LIMIT 1) AS ga_16,
    (SELECT gap FROM sequel WHERE machines = 'fast.toml' AND algorithm LIKE 'ga-2005%'
        ORDER BY visited DESC LIMIT 1) AS ga_2005_16
