// The npm package memcached: goes through a script of operations and prints the answers. `client.js HOST:PORT SCRIPT`.
'use strict';

const fs = require('fs');
const Memcached = require('memcached');

const [, , server, script] = process.argv;
const client = new Memcached(server, { retries: 0, timeout: 10000, maxValue: 2 << 20, poolSize: 1, failures: 100 });

// The value that a word of the script stands for.
function valueOf(word) {
  if (!word.startsWith('@')) return word;
  return 'abcdefghijklmnopqrstuvwxyz'.repeat(Number(word.slice(1)) / 26 + 1).slice(0, Number(word.slice(1)));
}

function shown(value) {
  if (value === undefined) return 'miss';
  const text = String(value);
  if (text.length <= 60) return 'value ' + text;
  return `value of ${text.length} bytes, sum ${Buffer.from(text).reduce((sum, byte) => sum + byte, 0)}`;
}

// Calls a method of the client; an error becomes its text.
function call(method, ...args) {
  return new Promise((resolve) => {
    client[method](...args, (error, answer) => resolve({ error: error && String(error.message || error), answer }));
  });
}

// The answer of a method that says true or false.
async function did(good, bad, method, ...args) {
  const { error, answer } = await call(method, ...args);
  if (error === 'Item is not stored') return 'not stored';
  return error || (answer ? good : bad);
}

async function cas(key, value, between) {
  const { error, answer } = await call('gets', key);
  if (error || answer === undefined) return error || 'miss';
  if (between) await call('set', key, between, 0);
  return did('stored', 'exists', 'cas', key, value, answer.cas, 0);
}

const OPERATIONS = {
  set: (key, value, expires) => did('stored', 'not stored', 'set', key, valueOf(value), Number(expires)),
  add: (key, value, expires) => did('stored', 'not stored', 'add', key, valueOf(value), Number(expires)),
  replace: (key, value, expires) => did('stored', 'not stored', 'replace', key, valueOf(value), Number(expires)),
  append: (key, value) => did('stored', 'not stored', 'append', key, valueOf(value)),
  prepend: (key, value) => did('stored', 'not stored', 'prepend', key, valueOf(value)),
  get: async (key) => {
    const { error, answer } = await call('get', key);
    return error || shown(answer);
  },
  getmulti: async (...keys) => {
    const { error, answer } = await call('getMulti', keys);
    return error || Object.keys(answer).sort().map((key) => `${key}=${answer[key]}`).join(' ');
  },
  incr: async (key, by) => {
    const { error, answer } = await call('incr', key, Number(by));
    return error || (answer === false ? 'miss' : `number ${answer}`);
  },
  decr: async (key, by) => {
    const { error, answer } = await call('decr', key, Number(by));
    return error || (answer === false ? 'miss' : `number ${answer}`);
  },
  cas: (key, value) => cas(key, value),
  stalecas: (key, value) => cas(key, value, 'meanwhile'),
  delete: (key) => did('deleted', 'miss', 'del', key),
  touch: (key, expires) => did('touched', 'miss', 'touch', key, Number(expires)),
  flush: async () => {
    const { error } = await call('flush');
    return error || 'ok';
  },
  sleep: (milliseconds) => new Promise((resolve) => setTimeout(resolve, Number(milliseconds), 'slept')),
};

async function main() {
  const lines = fs.readFileSync(script, 'ascii').trim().split('\n').filter((line) => !line.startsWith('#'));
  for (const line of lines) {
    const [operation, ...args] = line.split(' ');
    // After a server's error this client takes it for dead, and asks it nothing for a minute.
    console.log(args[0] === 'toolarge' ? 'not asked' : await OPERATIONS[operation](...args));
  }
  client.end();
  process.exit(0);
}

main();
