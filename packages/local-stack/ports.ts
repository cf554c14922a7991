import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { codeOf, StackError } from "./errors.ts";
import { portOwner } from "./runner/listeners.ts";

/** The default ports. If one is taken, the next free port is used. */
export const defaultPorts = {
  web: 3000,
  notes: 3001,
  gateway: 54321,
  postgres: 54322,
  mail: 54324,
  smtp: 54325,
  identity: 54326,
  functions: 54327,
  provider: 54328,
  oidc: 54329,
  turnstile: 54330,
} as const;

export const host = "127.0.0.1";

export type PortName = keyof typeof defaultPorts;
export type Ports = Record<PortName, number>;
export type TakenPort = { name: PortName; port: number; owner: string | undefined; chosen: number };

/** A port that this start reserves for one of its services. */
export type HeldPort = {
  port: number;
  /**
   * Frees the port on 127.0.0.1, where the service listens, but keeps the port on ::1. Other stacks that start then
   * still find the port taken, and Linux does not pick the port for an outgoing connection.
   */
  handOver: () => Promise<void>;
  /**
   * Returns whether another process took the port after the handover. May be called only after the service has exited.
   */
  isTaken: () => Promise<boolean>;
  /**
   * Frees the port on both addresses. Call it as soon as the service listens. Until then, a browser that tries ::1 for
   * localhost gets its connection reset.
   */
  release: () => Promise<void>;
};

export type HeldPorts = Record<PortName, HeldPort>;

const highestPort = 65_535;
/**
 * The range of automatically chosen ports. Higher ports may be taken by outgoing connections before we take them, and
 * `fetch` and browsers refuse many ports up to 10080 (fetch.spec.whatwg.org, "bad port").
 */
export const automaticPorts = { from: 10_081, to: 32_000 };
/**
 * A listener on this address keeps a port reserved while its service starts. A machine without IPv6 relies on retries.
 */
const guardHost = "::1";

type Close = () => Promise<void>;

/** Binds a port as a service does. @returns how to close it, or undefined if the port is taken */
function listen(port: number, address: string): Promise<Close | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.resetAndDestroy());
    server.once("error", (error) => {
      const code = codeOf(error);
      if (code === "EADDRINUSE" || code === "EACCES") resolve(undefined);
      else if (address === guardHost) resolve(async () => {});
      else reject(error);
    });
    server.listen({ port, host: address, exclusive: true }, () =>
      resolve(() => new Promise((closed) => server.close(() => closed()))),
    );
  });
}

/** Reserves a port on both loopback addresses. @returns undefined if either is taken */
async function holdPort(port: number): Promise<HeldPort | undefined> {
  let service = await listen(port, host);
  if (!service) return undefined;
  let guard = await listen(port, guardHost);
  if (!guard) {
    await service();
    return undefined;
  }
  const freeService = async () => {
    await service?.();
    service = undefined;
  };
  return {
    port,
    async handOver() {
      guard ??= await listen(port, guardHost);
      await freeService();
    },
    async isTaken() {
      const close = await listen(port, host);
      await close?.();
      return close === undefined;
    },
    async release() {
      await Promise.all([freeService(), guard?.()]);
      guard = undefined;
    },
  };
}

/**
 * Reserves a port for each name: the requested port, the next free one if it is taken, or any free one if 0 is
 * requested.
 * @returns the reserved ports, and the requested ports that were taken
 */
export async function holdPorts(requested: Ports): Promise<{ held: HeldPorts; taken: TakenPort[] }> {
  const held: Partial<HeldPorts> = {};
  const taken: TakenPort[] = [];
  const names = Object.keys(requested) as PortName[];
  const reserved = new Set(names.map((name) => requested[name]));
  for (const name of names) {
    const requestedPort = requested[name];
    const one = (requestedPort === 0 ? undefined : await holdPort(requestedPort)) ?? (await next(requestedPort));
    if (requestedPort !== 0 && one.port !== requestedPort)
      taken.push({ name, port: requestedPort, owner: portOwner(requestedPort), chosen: one.port });
    held[name] = one;
    reserved.add(one.port);
  }
  return { held: held as HeldPorts, taken };

  async function next(requestedPort: number): Promise<HeldPort> {
    try {
      return await holdFreePort({ from: requestedPort || undefined, except: reserved });
    } catch (error) {
      await releaseAll(held);
      throw error;
    }
  }
}

/** Reserves the first free port from `from` up that is not in `except`. `from` is random by default. */
export async function holdFreePort({
  from = randomInt(automaticPorts.from, automaticPorts.to),
  except = new Set(),
}: {
  from?: number;
  except?: ReadonlySet<number>;
} = {}): Promise<HeldPort> {
  for (let port = from; port <= highestPort; port += 1) {
    const one = except.has(port) ? undefined : await holdPort(port);
    if (one) return one;
  }
  throw new StackError(`There is no free port from ${from} up. Choose others: --ports auto`);
}

/** Returns a free port outside the range of outgoing connections, for a server that starts immediately. */
export async function freePort(): Promise<number> {
  const { port, release } = await holdFreePort();
  await release();
  return port;
}

/** Frees every port that is still reserved. */
export async function releaseAll(held: Partial<HeldPorts>): Promise<void> {
  await Promise.all(Object.values(held).map((one) => one.release()));
}

export function numbersOf(held: HeldPorts): Ports {
  return Object.fromEntries(Object.entries(held).map(([name, { port }]) => [name, port])) as Ports;
}

/** Formats the terminal message about a taken port. */
export function describeTaken({ name, port, owner, chosen }: TakenPort): string {
  return `port ${port} for ${name} is taken${owner ? ` by ${owner}` : ""}; using ${chosen}`;
}
