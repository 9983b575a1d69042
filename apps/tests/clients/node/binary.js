// memjs speaks memcached's binary protocol only: prints what it makes of a server. `binary.js HOST:PORT`.
'use strict';

const memjs = require('memjs');

const client = memjs.Client.create(process.argv[2], { retries: 0, timeout: 5, conntimeout: 5, logger: { log() {} } });

client.set('a', 'hello', {}, (error, stored) => {
  console.log(error ? error.message : stored ? 'stored' : 'not stored');
  client.close();
  process.exit(0);
});
