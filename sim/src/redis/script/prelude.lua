-- What a script sees of Lua and of Redis. Loaded once a thread, before any script.
--
-- Scripts of all nodes of a run share this machine, so nothing that a script does may stay:
-- globals and libraries are proxies that cannot be written, and what shows addresses, memory
-- or the process's own chance is replaced.

local call, pcall_redis, where, text_of_error, sha1hex, random, seed = ...
local error, type, next, tostring = error, type, next, tostring
local rawget, rawset, setfenv, getmetatable = rawget, rawset, setfenv, getmetatable
local setmetatable, pcall, select, unpack = setmetatable, pcall, select, unpack
local rawequal, loadstring, load, xpcall = rawequal, loadstring, load, xpcall

-- Proxy of a protected table -> the table itself.
local protected = {}

local function readonly()
  error('Attempt to modify a readonly table', 2)
end

local function protect(real)
  local proxy = setmetatable({}, { __index = real, __newindex = readonly, __metatable = false })
  protected[proxy] = real
  return proxy
end

local globals = {}
setmetatable(globals, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
local env = protect(globals)

local function failing(text)
  return { err = 'ERR ' .. text }
end

local redis = {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_SLAVE = 1, REPL_REPLICA = 1, REPL_AOF = 2, REPL_ALL = 3,
  REDIS_VERSION = '7.0.15', REDIS_VERSION_NUM = 458767,
}

redis.call, redis.pcall = call, pcall_redis

function redis.status_reply(...)
  if select('#', ...) ~= 1 or type(...) ~= 'string' then
    return failing('wrong number or type of arguments')
  end
  return { ok = (...) }
end

function redis.error_reply(...)
  if select('#', ...) ~= 1 or type(...) ~= 'string' then
    return failing('wrong number or type of arguments')
  end
  local text = (...):gsub('^%-', '')
  local code, rest = text:match('^([^ ]*) (.*)$')
  if not code then code, rest = 'ERR', text end
  return { err = code .. ' ' .. rest:gsub('^[\r\n]+', ''):gsub('[\r\n]+$', '') }
end

function redis.sha1hex(...)
  if select('#', ...) ~= 1 then error(failing('wrong number of arguments'), 0) end
  return sha1hex(tostring((...)))
end

function redis.log(...)
  if select('#', ...) < 2 then
    error(failing('redis.log() requires two arguments or more.'), 0)
  end
  local level = (...)
  if type(level) ~= 'number' then
    error(failing('First argument must be a number (log level).'), 0)
  end
  if level < 0 or level > 3 then error(failing('Invalid debug level.'), 0) end
end

function redis.setresp(...)
  if select('#', ...) ~= 1 then error(failing('redis.setresp() requires one argument.'), 0) end
  if (...) ~= 2 and (...) ~= 3 then error(failing('RESP version must be 2 or 3.'), 0) end
end

function redis.set_repl() end
function redis.replicate_commands() return true end
function redis.breakpoint() return false end
function redis.debug() end

local math_lib = {}
for name, value in next, math do math_lib[name] = value end
math_lib.randomseed = seed
function math_lib.random(...)
  local count = select('#', ...)
  local share = random()
  if count == 0 then return share end
  local low, high = ...
  if count == 1 then low, high = 1, low end
  if count > 2 then error('wrong number of arguments', 2) end
  low, high = math.floor(low), math.floor(high)
  if low > high then
    error("bad argument #" .. count .. " to 'random' (interval is empty)", 2)
  end
  return math.floor(share * (high - low + 1)) + low
end

-- Addresses differ from run to run: none is shown.
local function plain_tostring(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local value = (...)
  local kind = type(value)
  if kind == 'function' or kind == 'thread' or kind == 'userdata' or kind == 'table' then
    local meta = getmetatable(value)
    if type(meta) ~= 'table' or rawget(meta, '__tostring') == nil then
      return kind .. ': 0x000000000000'
    end
  end
  return tostring(value)
end

local function in_env(chunk, problem)
  if chunk then return setfenv(chunk, env) end
  return nil, problem
end

-- An error of redis.call comes as userdata out of the host.
local function plain(problem)
  if type(problem) == 'userdata' then return { err = text_of_error(problem) } end
  return problem
end

-- As in Redis 7.0, an error table reaches the script's own pcall as its text.
local function text_of(ok, problem, ...)
  if ok then return ok, problem, ... end
  problem = plain(problem)
  if type(problem) == 'table' and type(problem.err) == 'string' then return ok, problem.err end
  return ok, problem
end

local function next_in(table_, key)
  return next(protected[table_] or table_, key)
end

for _, name in next, {
  'assert', 'error', 'getmetatable', 'ipairs', 'newproxy', 'rawequal', 'select', 'tonumber',
  'type', 'unpack', '_VERSION',
} do
  globals[name] = _G[name]
end
globals.newproxy = nil
globals._G = env
globals.tostring = plain_tostring
globals.next = next_in
globals.pairs = function(...)
  if type((...)) ~= 'table' then
    local got = select('#', ...) == 0 and 'no value' or type((...))
    error("bad argument #1 to 'pairs' (table expected, got " .. got .. ')', 2)
  end
  return next_in, (...), nil
end
globals.rawget = function(table_, key) return rawget(protected[table_] or table_, key) end
globals.rawset = function(table_, key, value)
  if protected[table_] then error('Attempt to modify a readonly table', 0) end
  return rawset(table_, key, value)
end
globals.setmetatable = function(table_, meta)
  if protected[table_] then error('Attempt to modify a readonly table', 0) end
  return setmetatable(table_, meta)
end
globals.pcall = function(...) return text_of(pcall(...)) end
globals.xpcall = function(chunk, on_error)
  return xpcall(chunk, function(problem) return on_error(plain(problem)) end)
end
globals.load = function(pieces, ...)
  if type(pieces) ~= 'function' then
    error("bad argument #1 to 'load' (function expected, got " .. type(pieces) .. ')', 2)
  end
  return in_env(load(pieces, ...))
end
globals.loadstring = function(...) return in_env(loadstring(...)) end
globals.collectgarbage = function() return 0 end
globals.gcinfo = function() return 0, 0 end
globals.string = protect(string)
globals.table = protect(table)
globals.math = protect(math_lib)
globals.coroutine = protect(coroutine)
globals.redis = protect(redis)
string.dump = nil

local strings = getmetatable('')
strings.__index = globals.string
strings.__metatable = protect({ __index = globals.string })

local function handler(problem)
  local line = where()
  problem = plain(problem)
  if type(problem) ~= 'table' then problem = { err = 'ERR ' .. tostring(problem) } end
  if line then problem.source, problem.line = '@user_script', line end
  return problem
end

local function run(chunk, keys, args)
  globals.KEYS, globals.ARGV = keys, args
  return xpcall(chunk, handler)
end

return env, run
