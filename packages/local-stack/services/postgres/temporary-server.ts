import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { withDatabase } from "../../database.ts";
import { messageOf, StackError } from "../../errors.ts";
import type { Adopt } from "../../runner/service.ts";
import { type ClusterPasswords, clusterCommand, superuser } from "./cluster.ts";
import type { Placement } from "./placement.ts";

const startLimitMs = 30_000;

export type TemporaryServer = {
  url: (role: keyof ClusterPasswords, database?: string) => string;
  stop: () => Promise<void>;
};

/**
 * Starts a Postgres whose data need not survive a crash of the machine, and waits until it answers.
 * @throws StackError if it does not start
 */
export async function startTemporaryServer(options: {
  placement: Placement;
  port: number;
  passwords: ClusterPasswords;
  settings?: Record<string, string>;
  adopt?: Adopt | undefined;
}): Promise<TemporaryServer> {
  const { placement, port, passwords, adopt } = options;
  const { command, args, ...user } = await clusterCommand({ dataDir: placement.dataDir, port, placement });
  const settings = { fsync: "off", synchronous_commit: "off", full_page_writes: "off", ...options.settings };
  const settingArguments = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const server = spawn(command, [...args, ...settingArguments], {
    ...user,
    cwd: "/",
    stdio: "ignore",
    detached: adopt !== undefined,
  });
  adopt?.("postgres", server);
  const exited = new Promise<void>((resolve) => {
    server.once("exit", () => resolve());
    server.once("error", () => resolve());
  });
  const stop = async () => {
    server.kill("SIGINT");
    await exited;
  };
  const url = (role: keyof ClusterPasswords, database = "postgres") =>
    `postgres://${role}:${passwords[role]}@127.0.0.1:${port}/${database}`;
  try {
    await untilItAnswers(url(superuser, "template1"), () => server.exitCode !== null || server.signalCode !== null);
  } catch (error) {
    await stop();
    throw new StackError(`The temporary Postgres did not start: ${messageOf(error)}`);
  }
  return { url, stop };
}

async function untilItAnswers(connectionString: string, hasEnded: () => boolean): Promise<void> {
  const deadline = performance.now() + startLimitMs;
  for (;;) {
    try {
      return await withDatabase(connectionString, async () => undefined);
    } catch (error) {
      if (hasEnded() || performance.now() > deadline) throw error;
      await sleep(50);
    }
  }
}
