-- What a script sees of Lua and of Redis. Loaded once a thread, before any script.
--
-- Scripts of all nodes of a run share this machine, so nothing that a script does may stay:
-- globals and libraries are proxies that cannot be written, and what shows addresses, memory
-- or the process's own chance is replaced.

local host = ...
local error, type, tostring, next = error, type, tostring, next
local rawget, setfenv, getmetatable = rawget, setfenv, getmetatable
local setmetatable, pcall, select = setmetatable, pcall, select
local loadstring, load, xpcall = loadstring, load, xpcall
local resume, create, foreach = coroutine.resume, coroutine.create, table.foreach
local protected, value_of_error, where = host.protected, host.value_of_error, host.where
local null = host.cjson.null

local function readonly()
  error('Attempt to modify a readonly table', 2)
end

local function protect(real, meta)
  local own = { __index = real, __newindex = readonly, __metatable = meta or false }
  local proxy = setmetatable({}, own)
  protected[proxy] = real
  return proxy
end

local function undeclared(_, name)
  if type(name) ~= 'string' and type(name) ~= 'number' then
    error('Second argument to luaProtectedTableError must be a string or number', 2)
  end
  error("Script attempted to access nonexistent global variable '" .. name .. "'", 2)
end

local globals = {}
setmetatable(globals, { __index = undeclared })
local env = protect(globals, protect({ __index = undeclared }))

-- Addresses differ from run to run: none is shown.
local function plain_tostring(...)
  if select('#', ...) == 0 then error("bad argument #1 to 'tostring' (value expected)", 2) end
  local value = (...)
  local kind = type(value)
  if value == null then return 'userdata: (nil)' end
  if kind == 'function' or kind == 'thread' or kind == 'userdata' or kind == 'table' then
    local meta = getmetatable(value)
    if type(meta) ~= 'table' or rawget(meta, '__tostring') == nil then
      return kind .. ': 0x000000000000'
    end
  end
  return tostring(value)
end

local function in_env(env, chunk, problem)
  if chunk then return setfenv(chunk, env) end
  return nil, problem
end

-- Byte code could break the machine. As in Redis's own Lua it is read as a text, and is none.
local function as_text(pieces)
  local first = true
  return function()
    local piece = pieces()
    if first and type(piece) == 'string' and piece:byte() == 27 then piece = ' ' .. piece end
    first = false
    return piece
  end
end

-- An error of the host comes as userdata.
local function plain(problem)
  if type(problem) == 'userdata' and problem ~= null then return value_of_error(problem) end
  return problem
end

-- As in Redis 7.0, an error table reaches the script's own pcall as its text.
local function text_of(ok, problem, ...)
  if ok then return ok, problem, ... end
  problem = plain(problem)
  if type(problem) ~= 'table' then return ok, problem end
  local text = problem.err
  if type(text) == 'string' or type(text) == 'number' then return ok, text end
  return ok, problem, text
end

local function handler(problem)
  local source, line = where()
  problem = plain(problem)
  if type(problem) ~= 'table' then problem = { err = 'ERR ' .. plain_tostring(problem) } end
  if source then problem.source, problem.line = source, line end
  return problem
end

local function plain_problem(ok, problem, ...)
  if ok then return ok, problem, ... end
  return ok, plain(problem)
end

function coroutine.resume(...)
  if type((...)) ~= 'thread' then
    error("bad argument #1 to 'resume' (coroutine expected)", 2)
  end
  return plain_problem(resume(...))
end

-- Not a tail call: the level of the caller counts.
local function passed(ok, problem, ...)
  if ok then return problem, ... end
  problem = plain(problem)
  if type(problem) == 'string' then error(problem, 3) end
  error(problem, 0)
end

function coroutine.wrap(chunk)
  if type(chunk) ~= 'function' then
    error("bad argument #1 to 'wrap' (Lua function expected)", 2)
  end
  local thread = create(chunk)
  return function(...) return passed(resume(thread, ...)) end
end

for _, name in next, {
  'assert', 'error', 'ipairs', 'rawequal', 'select', 'tonumber', 'type', 'unpack', '_VERSION',
} do
  globals[name] = _G[name]
end
for name, value in next, host.functions do globals[name] = value end
globals.insert = nil
globals._G = env
globals.__redis__err__handler = function(problem) return handler(problem) end
globals.tostring = plain_tostring
globals.gcinfo = function() return 100, 0 end
globals.pcall = function(...)
  if select('#', ...) == 0 then return false, 'attempt to call a boolean value' end
  return text_of(pcall(...))
end
globals.xpcall = function(...)
  if select('#', ...) < 2 then error("bad argument #2 to 'xpcall' (value expected)", 2) end
  local chunk, on_error = ...
  return xpcall(chunk, function(problem) return on_error(plain(problem)) end)
end

-- What is loaded from a text gets the globals of those who load it.
local function loaders(env)
  return function(...)
    local pieces = ...
    if type(pieces) ~= 'function' then
      local got = select('#', ...) == 0 and 'no value' or type(pieces)
      error("bad argument #1 to 'load' (function expected, got " .. got .. ')', 2)
    end
    return in_env(env, load(as_text(pieces), select(2, ...)))
  end, function(...)
    local kind = type((...))
    if kind ~= 'string' and kind ~= 'number' then
      local got = select('#', ...) == 0 and 'no value' or kind
      error("bad argument #1 to 'loadstring' (string expected, got " .. got .. ')', 2)
    end
    local text, name = ...
    text = text .. ''
    if text:byte() == 27 then return in_env(env, loadstring(' ' .. text, name or text)) end
    return in_env(env, loadstring(...))
  end
end
globals.load, globals.loadstring = loaders(env)

table.insert = host.functions.insert
table.foreach = function(seen, visit) return foreach(protected[seen] or seen, visit) end
math.random, math.randomseed = host.random, host.seed
for name, library in next, {
  string = string, table = table, math = math, coroutine = coroutine, redis = host.redis,
  cjson = host.cjson, bit = host.bit, struct = host.struct, cmsgpack = host.cmsgpack,
} do
  globals[name] = protect(library)
end

local strings = getmetatable('')
strings.__index = globals.string
strings.__metatable = protect({ __index = globals.string })

local function run(chunk, keys, args)
  globals.KEYS, globals.ARGV = keys, args
  return xpcall(chunk, handler)
end

-- Functions have a few globals of their own, and while their library is loaded they see next to
-- nothing. `seen` is which of the two they see.
local seen = { __newindex = readonly, __metatable = false }
local function_env = setmetatable({}, seen)
local function_globals = setmetatable({}, { __index = undeclared })
for name, value in next, globals do function_globals[name] = value end
function_globals.__redis__err__handler = nil
function_globals._G = protect(function_globals, protect({ __index = undeclared }))
function_globals.redis = protect(host.function_redis)
function_globals.load, function_globals.loadstring = loaders(function_env)
local library_redis = setmetatable(host.library_redis, { __index = undeclared })
local library_globals = { redis = protect(library_redis) }
setmetatable(library_globals, { __index = undeclared })

local function load_library(chunk)
  seen.__index = library_globals
  return xpcall(chunk, plain)
end

local function call(callback, keys, args)
  seen.__index = function_globals
  return xpcall(function() return callback(keys, args) end, handler)
end

return env, function_env, run, load_library, call
