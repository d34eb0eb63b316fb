"""The Lua of leases. The keys of a lease are always handed over in the order of LEASE_PARTS.

A fencing number is never given twice, and is higher than each before it, even by a Redis that came back
empty: it is the time in microseconds, or one more than the last.
"""

from __future__ import annotations

LEASE_PARTS = (
    "owner",  # OWNER|NUMBER, for as long as the lease lasts
    "fence",  # the number; every write of an owner is checked against it
    "seen",  # hash: at (unix ms, the last sign of life), clean (let go in order), back, what the claim found
)

_LEASE = f"""
local {", ".join(LEASE_PARTS)} = unpack(KEYS)
local time = redis.call('TIME')
local ticks = time[1] * 1000000 + time[2]
local now = math.floor(ticks / 1000)
local function whole(number) return string.format('%.0f', number) end
"""

# ARGV: OWNER, milliseconds, value of a dead owner or '', seconds to keep. A second run of the same claim,
# whose first answer was lost, gives the same answer.
CLAIM_LEASE = (
    _LEASE
    + """
local mine = ARGV[1] .. '|'
local held = redis.call('GET', owner)
if held and string.sub(held, 1, #mine) == mine then
  redis.call('PEXPIRE', owner, ARGV[2])
  local found = redis.call('HMGET', seen, 'away', 'orderly')
  return {'claimed', string.sub(held, #mine + 1), found[1] or '', found[2] or '1'}
end
if held and held ~= ARGV[3] then return {'held', held} end
local number = whole(math.max(tonumber(redis.call('GET', fence) or '0') + 1, ticks))
local former = redis.call('HMGET', seen, 'at', 'clean')
local away = former[1] and whole(math.max(now - tonumber(former[1]), 0)) or ''
local orderly = (not former[1] or former[2]) and '1' or '0'
redis.call('SET', owner, mine .. number, 'PX', ARGV[2])
redis.call('SET', fence, number, 'EX', ARGV[4])
redis.call('HDEL', seen, 'clean', 'back', 'saved')
redis.call('HSET', seen, 'at', whole(now), 'away', away, 'orderly', orderly, 'former', former[1] or '')
redis.call('EXPIRE', seen, ARGV[4])
return {'claimed', number, away, orderly}
"""
)

# ARGV: OWNER|NUMBER, NUMBER, milliseconds, seconds to keep. A lease that ran out while nobody wanted it goes
# on.
RENEW_LEASE = (
    _LEASE
    + """
local number = redis.call('GET', fence)
if not number then return 'empty' end
local held = redis.call('GET', owner)
if number ~= ARGV[2] or (held and held ~= ARGV[1]) then return 'lost' end
local let_go = redis.call('HMGET', seen, 'clean', 'back')
if let_go[1] or let_go[2] then return 'free' end
redis.call('SET', owner, ARGV[1], 'PX', ARGV[3])
redis.call('EXPIRE', fence, ARGV[4])
redis.call('HSET', seen, 'at', whole(now))
redis.call('EXPIRE', seen, ARGV[4])
return 'renewed'
"""
)

# ARGV: OWNER|NUMBER, NUMBER, seconds to keep, 'untouched' or ''. Untouched, it is left as the claim found it:
# the next owner is told of the former one.
FREE_LEASE = (
    _LEASE
    + """
if redis.call('GET', fence) ~= ARGV[2] then return 'other' end
local held = redis.call('GET', owner)
if held and held ~= ARGV[1] then return 'other' end
redis.call('DEL', owner)
local found = redis.call('HMGET', seen, 'orderly', 'former')
if ARGV[4] == 'untouched' and found[1] == '0' and found[2] then
  redis.call('HSET', seen, 'at', found[2], 'back', '1')
else
  redis.call('HSET', seen, 'at', whole(now), 'clean', '1')
end
redis.call('EXPIRE', seen, ARGV[3])
return 'free'
"""
)
