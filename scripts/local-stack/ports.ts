import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:net";
import { codeOf, StackError } from "./errors.ts";

/** The ports that people know; the next free one where one is taken. */
export const defaultPorts = {
  web: 3000,
  gateway: 54321,
  postgres: 54322,
  mail: 54324,
  smtp: 54325,
  identity: 54326,
  functions: 54327,
  provider: 54328,
} as const;

export type PortName = keyof typeof defaultPorts;
export type Ports = Record<PortName, number>;
export type TakenPort = { name: PortName; port: number; owner: string | undefined; chosen: number };

const loopback = "127.0.0.1";
const highestPort = 65_535;

/** Listens for a moment. @returns the port, or undefined when it is taken */
function tryPort(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", (error) => {
      const code = codeOf(error);
      if (code === "EADDRINUSE" || code === "EACCES") resolve(undefined);
      else reject(error);
    });
    server.listen({ port, host: loopback, exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address ? address.port : undefined));
    });
  });
}

/** The process that listens on a port of this machine, as `name (pid)`, where Linux's /proc lets us see it. */
export function portOwner(port: number): string | undefined {
  try {
    const hex = port.toString(16).toUpperCase().padStart(4, "0");
    const inodes = new Set(
      ["/proc/net/tcp", "/proc/net/tcp6"]
        .flatMap((file) => readFileSync(file, "utf8").split("\n").slice(1))
        .map((line) => line.trim().split(/\s+/))
        .filter((fields) => fields[3] === "0A" && fields[1]?.endsWith(`:${hex}`))
        .map((fields) => `socket:[${fields[9]}]`),
    );
    if (inodes.size === 0) return undefined;
    const pid = readdirSync("/proc").find((entry) => /^\d+$/.test(entry) && holdsSocket(entry, inodes));
    return pid && `${readFileSync(`/proc/${pid}/comm`, "utf8").trim()} (${pid})`;
  } catch {
    return undefined;
  }
}

function holdsSocket(pid: string, sockets: ReadonlySet<string>): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      try {
        return sockets.has(readlinkSync(`/proc/${pid}/fd/${fd}`));
      } catch {
        return false;
      }
    });
  } catch {
    return false;
  }
}

/**
 * A port for each name: the wished one, or the next free one; any free one where the wish is 0.
 * @returns the ports and, of the wished ones, those that were taken
 */
export async function choosePorts(wished: Ports): Promise<{ ports: Ports; taken: TakenPort[] }> {
  const ports: Partial<Ports> = {};
  const taken: TakenPort[] = [];
  const names = Object.keys(wished) as PortName[];
  const used = new Set<number>();
  for (const name of names) {
    const wish = wished[name];
    let chosen: number | undefined;
    for (let port = wish; chosen === undefined; port += wish === 0 ? 0 : 1) {
      if (port > highestPort)
        throw new StackError(`No free port for ${name} from ${wish} up. Choose others: --ports auto`);
      if (port !== 0 && (used.has(port) || (port !== wish && names.some((other) => wished[other] === port)))) continue;
      const free = await tryPort(port);
      if (free !== undefined && !used.has(free)) chosen = free;
    }
    if (wish !== 0 && chosen !== wish) taken.push({ name, port: wish, owner: portOwner(wish), chosen });
    used.add(chosen);
    ports[name] = chosen;
  }
  return { ports: ports as Ports, taken };
}

/** What to tell the person at the terminal about a taken port. */
export function describeTaken({ name, port, owner, chosen }: TakenPort): string {
  return `port ${port} for ${name} is taken${owner ? ` by ${owner}` : ""}; using ${chosen}`;
}
