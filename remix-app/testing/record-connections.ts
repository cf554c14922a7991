import { Socket } from "node:net";

/**
 * Loaded into a server's process (`node --import`): says on standard output where each connection that the process
 * opens leads, before it is opened, as `connects to <host>:<port>`. Every client in Node ends here, whatever its library.
 */
const { connect } = Socket.prototype;

Socket.prototype.connect = function record(this: Socket, ...args: unknown[]) {
  // Node's own callers hand over their arguments as one list.
  const [target, host] = Array.isArray(args[0]) ? args[0] : args;
  const options = typeof target === "object" && target !== null ? target : { port: target, host };
  const place = options.path ?? `${options.host ?? "localhost"}:${options.port}`;
  process.stdout.write(`connects to ${place}\n`);
  return Reflect.apply(connect, this, args);
};
