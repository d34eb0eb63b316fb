"""The Lua that Redis runs whole or not at all; each script touches the keys of one hash tag only.

Redis may run a script whose answer is then lost, and the client asks again: every script may therefore run
twice. The keys of a thread are always handed over in the order of THREAD_PARTS.
"""

from __future__ import annotations

THREAD_PARTS = (
    "operation",  # the operation's record
    "queue",  # list: root, replies and uploads, oldest first
    "edit",  # the newest edit of the root, if it was not sent yet
    "files",  # hash: message id → compressed bytes
    "known",  # set: ids that were ever queued
    "address",  # where the root is in Slack
    "attempt",  # the message that is being sent
    "refused",  # why Slack refused the root for good
    "parked",  # list: messages refused for good
    "sender",  # lease of the process that sends this thread
    "fence",  # number of the lease of the process that runs the operation
    "inbox",  # list: mail for the process that runs the operation
    "seen",  # of that lease: see scripts_lease; and saved, the number of the owner's newest save
)

_THREAD = f"local {', '.join(THREAD_PARTS)} = unpack(KEYS)\n"
_NO_ATTEMPT_OF = """
local function no_attempt_of(id)
  local noted = redis.call('GET', attempt)
  local readable, told = pcall(cjson.decode, noted or '')
  local of_another = readable and type(told) == 'table' and told.id ~= id
  if noted and not of_another then redis.call('DEL', attempt) end
end
"""
_OWNED = "if redis.call('GET', sender) ~= ARGV[1] then return 'lost' end\n"

# ARGV: operation record or '', 'new', 'closed' or '', seconds to keep, fencing number or '', number of the
# save or '', how many entries of the inbox were read, those, then kind, id, record, file for each message. A
# new operation that is there already, other than by this very record, is left alone. A save that comes after
# a later one of its owner (given up after a time-out, it still was on its way) undoes neither state nor edit.
PUSH = (
    _THREAD
    + """
if ARGV[4] ~= '' then
  local number = redis.call('GET', fence)
  if not number then return 'empty' end
  if number ~= ARGV[4] then return 'lost' end
end
local late = ARGV[5] ~= '' and tonumber(ARGV[5]) < tonumber(redis.call('HGET', seen, 'saved') or '0')
if ARGV[2] == 'new' then
  local present = redis.call('GET', operation)
  if present and present ~= ARGV[1] then return 'exists' end
end
if ARGV[1] ~= '' and not late then
  if ARGV[5] ~= '' then redis.call('HSET', seen, 'saved', ARGV[5]) end
  redis.call('SET', operation, ARGV[1])
  if ARGV[2] == 'closed' then
    redis.call('EXPIRE', operation, ARGV[3])
    redis.call('EXPIRE', fence, ARGV[3])
    redis.call('DEL', inbox)
  end
end
local first = 7 + ARGV[6]
for i = 7, first - 1 do redis.call('LREM', inbox, 1, ARGV[i]) end
for i = first, #ARGV, 4 do
  local kind, id, record, file = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if kind == 'edit' then
    if not late then redis.call('SET', edit, record) end
  elseif redis.call('SADD', known, id) == 1 then
    redis.call(kind == 'root' and 'LPUSH' or 'RPUSH', queue, record)
    if file ~= '' then
      redis.call('HSET', files, id, file)
      redis.call('EXPIRE', files, ARGV[3])
    end
  end
end
redis.call('EXPIRE', known, ARGV[3])
return 'pushed'
"""
)

# ARGV: mail's id, mail, seconds to keep.
MAIL = (
    _THREAD
    + """
local record = redis.call('GET', operation)
if not record then return 'gone' end
local readable, told = pcall(cjson.decode, record)
if readable and type(told) == 'table' and type(told.closed) == 'string' then return 'gone' end
if redis.call('SADD', known, 'mail:' .. ARGV[1]) == 1 then redis.call('RPUSH', inbox, ARGV[2]) end
redis.call('EXPIRE', inbox, ARGV[3])
redis.call('EXPIRE', known, ARGV[3])
return 'kept'
"""
)

# ARGV: fencing number, operation record, 'closed' or '', address or '', seconds to keep, ids of messages that
# Slack has. What a Redis that came back empty held, as far as it is still known.
REBUILD = (
    _THREAD
    + """
local number = redis.call('GET', fence)
if not number then return 'empty' end
if number ~= ARGV[1] then return 'lost' end
redis.call('SET', operation, ARGV[2])
if ARGV[3] == 'closed' then
  redis.call('EXPIRE', operation, ARGV[5])
  redis.call('EXPIRE', fence, ARGV[5])
end
if ARGV[4] ~= '' then redis.call('SET', address, ARGV[4], 'NX', 'EX', ARGV[5]) end
for i = 6, #ARGV do redis.call('SADD', known, ARGV[i]) end
redis.call('EXPIRE', known, ARGV[5])
return 'rebuilt'
"""
)

# Drops a closed operation, with all that is known of it; what is still to be sent stays.
DROP = (
    _THREAD
    + """
if redis.call('EXISTS', queue, edit) > 0 then return 'waits' end
redis.call('DEL', operation, files, known, address, attempt, refused, fence, inbox)
return 'dropped'
"""
)

# ARGV: owner, milliseconds, a dead owner or ''. Takes the lease only when there is something to send.
CLAIM = (
    _THREAD
    + """
local holder = redis.call('GET', sender)
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return {'held', holder} end
local head = redis.call('LINDEX', queue, 0)
local present = redis.call('GET', edit)
if head or present then redis.call('SET', sender, ARGV[1], 'PX', ARGV[2]) end
return {'claimed', head or '', present or '', redis.call('GET', address) or '',
        redis.call('GET', attempt) or '', redis.call('GET', refused) or ''}
"""
)

# ARGV: owner, milliseconds.
RENEW = (
    _THREAD
    + _OWNED
    + """
redis.call('PEXPIRE', sender, ARGV[2])
return 'renewed'
"""
)

# ARGV: owner.
LET_GO = (
    _THREAD
    + _OWNED
    + """
redis.call('DEL', sender)
return 'free'
"""
)

# ARGV: owner, attempt record or '' (nothing of it reached Slack), message id. What comes late, when the next
# message is being sent, leaves that one's mark alone: only the head of the queue is marked.
ATTEMPT = (
    _THREAD
    + _OWNED
    + _NO_ATTEMPT_OF
    + """
if ARGV[2] == '' then
  no_attempt_of(ARGV[3])
  return 'noted'
end
local readable, told = pcall(cjson.decode, redis.call('LINDEX', queue, 0) or '')
if not readable or type(told) ~= 'table' or told.id ~= ARGV[3] then return 'late' end
redis.call('SET', attempt, ARGV[2])
return 'noted'
"""
)

# ARGV: owner, the queue's record, message id, address or '', seconds to keep the address.
ACCEPT = (
    _THREAD
    + _OWNED
    + _NO_ATTEMPT_OF
    + """
redis.call('LREM', queue, 1, ARGV[2])
redis.call('HDEL', files, ARGV[3])
no_attempt_of(ARGV[3])
if ARGV[4] ~= '' then
  redis.call('SET', address, ARGV[4], 'EX', ARGV[5])
  redis.call('DEL', refused)
end
return 'accepted'
"""
)

# ARGV: owner, the record in queue or slot, parked record, code where the root itself was refused or '',
# seconds to keep.
PARK = (
    _THREAD
    + _OWNED
    + """
local removed = redis.call('LREM', queue, 1, ARGV[2])
if removed == 1 then redis.call('DEL', attempt) end
if redis.call('GET', edit) == ARGV[2] then removed = redis.call('DEL', edit) end
if removed == 1 then
  -- Of edits in a row the newest says all.
  local function is_edit(entry)
    local readable, told = pcall(cjson.decode, entry)
    told = readable and type(told) == 'table' and told.outgoing
    return type(told) == 'table' and told.kind == 'edit'
  end
  local before = redis.call('LINDEX', parked, -1)
  if before and is_edit(before) and is_edit(ARGV[3]) then redis.call('RPOP', parked) end
  redis.call('RPUSH', parked, ARGV[3])
  redis.call('EXPIRE', parked, ARGV[5])
end
if ARGV[4] ~= '' then redis.call('SET', refused, ARGV[4], 'EX', ARGV[5]) end
return 'parked'
"""
)

# ARGV: owner, the slot's record. A newer edit that came meanwhile stays.
EDITED = (
    _THREAD
    + _OWNED
    + """
if redis.call('GET', edit) == ARGV[2] then redis.call('DEL', edit) end
return 'edited'
"""
)

# ARGV: owner, the slot's record, id and record of the reply that takes over. What is gone is replaced once; a
# second run, while the reply still is the next to go out, gives the same answer.
ANEW = (
    _THREAD
    + _OWNED
    + """
if redis.call('SADD', known, ARGV[3]) == 0 then
  return redis.call('LINDEX', queue, 0) == ARGV[4] and 'queued' or 'known'
end
if redis.call('GET', edit) == ARGV[2] then redis.call('DEL', edit) end
redis.call('LPUSH', queue, ARGV[4])
return 'queued'
"""
)

# KEYS: one string. ARGV: its value as it was read, its new value or '' to delete it.
SWAP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL') end
return 1
"""

# KEYS: a sorted set. ARGV: member, score as it was read. An entry that was refreshed meanwhile stays.
FORGET = """
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score and tonumber(score) == tonumber(ARGV[2]) then return redis.call('ZREM', KEYS[1], ARGV[1]) end
return 0
"""
