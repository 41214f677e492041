-- How long does a chaotic series remember? Autocorrelation of x' = r x (1 - x).
--
-- A lag of more than half of the series says nothing: the bound of one parameter depends on
-- the value of another.
--
--ZEN$ RUN "lua5.4 autocorr.lua"
--ZEN$ METRIC correlation FROM stdout REGEX "correlation (\S+)"
--ZEN$ METRIC noise := 2 / sqrt(n)
--ZEN$ METRIC remembers := 1 if abs(correlation) > noise else 0
--ZEN$ OBJECTIVE MAXIMIZE abs(correlation)

local r = 3.8
local n = 32
local lag = 1
--ZEN$ ASSIGN r = { 3.6:4.0:0.1 }
--ZEN$ ASSIGN n = { 8:64:*2 }
--ZEN$ ASSIGN lag = { 1:(n/2) }

local function series(length, x)
  local values = {}
  for _ = 1, 100 do x = r * x * (1 - x) end   -- forget the start
  for i = 1, length do
    x = r * x * (1 - x)
    values[i] = x
  end
  return values
end

local function mean(values)
  local sum = 0
  for _, x in ipairs(values) do sum = sum + x end
  return sum / #values
end

local function correlation(values, distance)
  local m, above, below = mean(values), 0, 0
  for i = 1, #values do
    below = below + (values[i] - m) ^ 2
    if i > distance then
      above = above + (values[i] - m) * (values[i - distance] - m)
    end
  end
  return above / below
end

print(string.format("r %.2f  n %d  lag %d", r, n, lag))
print(string.format("correlation %.6f", correlation(series(n, 0.3), lag)))
