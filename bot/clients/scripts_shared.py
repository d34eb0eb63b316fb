"""The Lua of what all processes share: marks, lanes, intents, audit. Each script may run twice, as all do."""

from __future__ import annotations

# KEYS: a lane. ARGV: microseconds between two, how many at once. Returns microseconds to wait; 0: taken.
# What is kept is when the lane will be at rest again (GCRA). A second run takes a second one: slower, never
# faster.
LANE = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local rest = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
rest = math.min(rest, now + interval * burst)
local wait = rest - interval * (burst - 1) - now
if wait > 0 then return math.ceil(wait) end
rest = rest + interval
redis.call('SET', KEYS[1], string.format('%.0f', rest), 'PX', math.ceil((rest - now) / 1000) + 1)
return 0
"""

# KEYS: the open intents, then the mark of each token. ARGV: for each its token, caller, seconds, record.
INTEND = """
local answers = {}
for place = 2, #KEYS do
  local token, caller, seconds, record = unpack(ARGV, place * 4 - 7, place * 4 - 4)
  local first = redis.call('SET', KEYS[place], caller, 'NX', 'EX', seconds)
  if first or redis.call('GET', KEYS[place]) == caller then
    redis.call('HSET', KEYS[1], token, record)
    answers[place - 1] = 1
  else
    answers[place - 1] = 0
  end
end
return answers
"""

# KEYS: the open intents. ARGV: token, whose it was, whose it becomes, record as it becomes. Its owner may
# write it anew as well.
ADOPT = """
local raw = redis.call('HGET', KEYS[1], ARGV[1])
if not raw then return 0 end
local readable, intent = pcall(cjson.decode, raw)
if not readable or type(intent) ~= 'table' then return 0 end
if intent.owner ~= ARGV[2] and intent.owner ~= ARGV[3] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4])
return 1
"""

# KEYS: the audit. ARGV: id, record, how many are kept. An entry whose answer was lost is not written twice.
AUDIT = """
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 100)) do
  if entry[2][2] == ARGV[1] then return 'known' end
end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'id', ARGV[1], 'entry', ARGV[2])
return 'kept'
"""

# KEYS: a mark. ARGV: what it is where there is none. Returns what it is.
MARK = """
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('GET', KEYS[1])
"""
