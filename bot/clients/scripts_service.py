"""The Lua of what each service has: its lock, its history. Each script may run twice, as all do."""

from __future__ import annotations

# KEYS: a service's lock. ARGV: holder record, its operation. Returns '' when taken, else who holds it.
TAKE = """
local held = redis.call('GET', KEYS[1])
if held then
  local readable, holder = pcall(cjson.decode, held)
  if not (readable and type(holder) == 'table' and holder.operation == ARGV[2]) then return held end
end
redis.call('SET', KEYS[1], ARGV[1])
return ''
"""

# KEYS: a service's lock. ARGV: operation. Only who holds it lets it go.
RELEASE = """
local held = redis.call('GET', KEYS[1])
if not held then return 0 end
local readable, holder = pcall(cjson.decode, held)
if readable and type(holder) == 'table' and holder.operation == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
"""

# KEYS: a service's history, its accounts. ARGV: operation, when it closed, its account, how many are kept.
# Returns those that are kept no more.
SETTLE = """
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
local dropped = redis.call('ZRANGE', KEYS[1], 0, -ARGV[4] - 1)
for _, old in ipairs(dropped) do
  redis.call('ZREM', KEYS[1], old)
  redis.call('HDEL', KEYS[2], old)
end
return dropped
"""

# KEYS: a service's history, its accounts. ARGV: how many. Names, newest first, each with its account or ''.
PAST = """
local rows = {}
for place, name in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  rows[place] = {name, redis.call('HGET', KEYS[2], name) or ''}
end
return rows
"""
