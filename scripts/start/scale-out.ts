import { withDatabase } from "@gatehousehq/local-stack/database";
import { StackError } from "@gatehousehq/local-stack/errors";
import { type HeldPort, holdFreePort, host } from "@gatehousehq/local-stack/ports";
import { limits, type Service } from "@gatehousehq/local-stack/runner/service";
import { findProgram } from "@gatehousehq/local-stack/services/find-program";
import { configurePgBouncer } from "@gatehousehq/local-stack/services/pgbouncer/pgbouncer";
import type { ServiceContext } from "./services.ts";

/** How many processes replace the single web server and the single functions server. */
const copies = { web: 2, functions: 3 } as const;

/** The additional ports of a stack with several servers and a pooler. */
export type ScaledPorts = { pooler: HeldPort; servers: Record<keyof typeof copies, HeldPort[]> };

/** @throws StackError if PgBouncer is missing */
export async function holdScaledPorts(): Promise<ScaledPorts> {
  if (!findProgram("pgbouncer"))
    throw new StackError("--scale needs PgBouncer on the PATH: install the package pgbouncer.");
  const hold = (count: number) => Promise.all(Array.from({ length: count }, () => holdFreePort()));
  const [pooler, web, functions] = [await holdFreePort(), await hold(copies.web), await hold(copies.functions)];
  return { pooler, servers: { web, functions } };
}

/** Replaces the web server and the functions server with several processes behind a balancer, and adds the pooler. */
export function scaleOut(
  services: readonly Service[],
  { context, poolerUrl, plain }: { context: ServiceContext; poolerUrl: string; plain: Record<string, string> },
): Service[] {
  const { scaled, held, ports, databaseVia, secrets, placement, root } = context;
  if (!scaled) return [...services];
  const { pooler, servers } = scaled;
  const copied = services.flatMap((service) => {
    const own = servers[service.name as keyof typeof copies];
    return own ? own.map((port, index) => copyOf(service, { port, index })) : [service];
  });
  const portsOf = (held: readonly HeldPort[]) => held.map(({ port }) => port);
  return [
    ...copied,
    {
      kind: "service",
      name: "pgbouncer",
      command: findProgram("pgbouncer") ?? "pgbouncer",
      ...configurePgBouncer({
        port: pooler.port,
        postgresPort: databaseVia ?? ports.postgres,
        passwords: secrets.passwords,
        placement,
      }),
      cwd: "/",
      env: plain,
      ports: [pooler],
      dependsOn: ["bootstrap"],
      health: { check: () => withDatabase(poolerUrl, async (client) => void (await client.query("select 1"))) },
      ...limits,
      // SIGINT ends PgBouncer once no transaction is running. What SIGTERM does depends on its version.
      stopSignal: "SIGINT",
    },
    {
      kind: "service",
      name: "balancer",
      command: process.execPath,
      args: [`${root}/packages/local-stack/services/balancer/main.ts`],
      cwd: root,
      env: {
        ...plain,
        FRONTS: JSON.stringify({
          [ports.web]: portsOf(servers.web),
          [ports.functions]: portsOf(servers.functions),
        }),
      },
      ports: [held.web, held.functions],
      dependsOn: copied.filter(({ name }) => baseOf(name) in copies).map(({ name }) => name),
      health: { url: `http://${host}:${ports.web}/healthz` },
      ...limits,
    },
  ];
}

/** Names the copies `web`, `web-2`, and so on. */
function copyOf(service: Service, { port, index }: { port: HeldPort; index: number }): Service {
  return {
    ...service,
    name: index === 0 ? service.name : `${service.name}-${index + 1}`,
    env: { ...service.env, PORT: String(port.port) },
    ports: [port],
    health: { url: `http://${host}:${port.port}/healthz` },
  };
}

const baseOf = (name: string) => name.replace(/-\d+$/, "");
