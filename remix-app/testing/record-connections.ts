import { Socket } from "node:net";

/**
 * Writes `connects to <host>:<port>` to standard output before each connection that a server's process opens. Load this
 * file with `node --import`. It wraps `Socket.prototype.connect`, which every client library in Node uses.
 */
const { connect } = Socket.prototype;

Socket.prototype.connect = function record(this: Socket, ...args: unknown[]) {
  // Node's own modules call this function with all arguments in one array.
  const [target, host] = Array.isArray(args[0]) ? args[0] : args;
  const options = typeof target === "object" && target !== null ? target : { port: target, host };
  const place = options.path ?? `${options.host ?? "localhost"}:${options.port}`;
  process.stdout.write(`connects to ${place}\n`);
  return Reflect.apply(connect, this, args);
};
