-- Which index, which page and which cache answer the questions about the rain quickest?
--
--     sqlite3 rain.db < rainfall.sql
--
-- ZEN$ SUBSTITUTE "reading(station, day)" =
-- ZEN$&  { "reading(station, day)", "reading(day, station)", "reading(station)" } AS index_on
-- ZEN$ SUBSTITUTE 4096 = { 1024:16384:*4 } AS page_size UNIT "B"
-- ZEN$ SUBSTITUTE 500 = { 50, 500 } AS cache UNIT "pages"
-- ZEN$ CONSTRAINT VALUE page_size * cache <= 2.5MB
-- ZEN$ RUN "rm -f rain.db && sqlite3 rain.db < rainfall.sql" TIMEOUT 30s
-- ZEN$ METRIC seconds FROM stdout REGEX "Run Time: real (\S+)" TAKE sum UNIT "s"
-- ZEN$ METRIC size FROM stdout REGEX "size\|(\d+)" UNIT "B"
-- ZEN$ METRIC plan FROM stdout REGEX "(SEARCH|SCAN) reading" TAKE first
-- ZEN$ METRIC wettest FROM stdout REGEX "wettest\|(\d+)"
-- ZEN$ OBJECTIVE MINIMIZE seconds, MINIMIZE size

PRAGMA page_size = 4096;
PRAGMA cache_size = 500;

CREATE TABLE reading (
    station INTEGER NOT NULL,
    day     INTEGER NOT NULL,
    rain    REAL    NOT NULL   -- millimetres
);

-- Stations report day by day: 200 of them through a year, with rain that only looks random.
WITH RECURSIVE
    days(day) AS (SELECT 1 UNION ALL SELECT day + 1 FROM days WHERE day < 365),
    stations(station) AS (SELECT 1 UNION ALL SELECT station + 1 FROM stations WHERE station < 200)
INSERT INTO reading
SELECT station, day, max(0, (station * 7919 + day * 104729) % 613 - 400) / 10.0
FROM days, stations;

CREATE INDEX by_both ON reading(station, day);
ANALYZE;

EXPLAIN QUERY PLAN SELECT sum(rain) FROM reading WHERE station = 77 AND day BETWEEN 100 AND 130;

.timer on
SELECT 'spring', round(sum(rain), 1) FROM reading WHERE station = 77 AND day BETWEEN 60 AND 151;
SELECT 'one day', round(avg(rain), 3) FROM reading WHERE day = 200;
SELECT 'wettest', station FROM reading GROUP BY station ORDER BY sum(rain) DESC, station LIMIT 1;
SELECT 'dry', count(*)
FROM reading AS today
JOIN reading AS before ON before.station = today.station AND before.day = today.day - 1
WHERE today.station <= 20 AND today.rain = 0 AND before.rain = 0;
.timer off

SELECT 'size', page_count * page_size FROM pragma_page_count(), pragma_page_size();
