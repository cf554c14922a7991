import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "@gatehousehq/local-stack/ports";

const host = "127.0.0.1";
const stopTimeoutMs = 3_000;

/** A server process started by the bench. */
export type ServiceProcess = {
  url: string;
  pid: number;
  /** Sends the process a message and waits for its answer. Only some servers answer messages. */
  ask: (message: string) => Promise<unknown>;
  stop: () => Promise<void>;
};

/**
 * Starts a program that listens on loopback, and waits until it answers.
 * @param options.command defaults to Node
 * @param options.args returns the arguments for a port
 * @param options.port defaults to a free port
 * @throws Error with the end of its error output if it does not answer in time
 */
export async function startServer(options: {
  command?: string;
  args: (port: number) => string[];
  port?: number;
  env?: (port: number) => Record<string, string>;
  startTimeoutMs?: number;
}): Promise<ServiceProcess> {
  const port = options.port ?? (await freePort());
  const child = spawn(options.command ?? process.execPath, options.args(port), {
    env: { ...process.env, ...options.env?.(port), PORT: String(port) },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let complaint = "";
  child.stderr?.on("data", (chunk) => {
    complaint = (complaint + chunk).slice(-1_000);
  });
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const stop = async () => {
    child.kill("SIGTERM");
    const forced = setTimeout(() => child.kill("SIGKILL"), stopTimeoutMs);
    await exited;
    clearTimeout(forced);
  };
  const ask = async (message: string) => {
    const answered = once(child, "message").then(([answer]) => answer as unknown);
    const gone = exited.then(() => {
      throw new Error("A server of the bench ended before its time.");
    });
    child.send(message);
    return Promise.race([answered, gone]);
  };
  const url = `http://${host}:${port}`;
  const deadline = performance.now() + (options.startTimeoutMs ?? 15_000);
  while (child.exitCode === null && performance.now() < deadline) {
    const answer = await fetch(url).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer && child.pid) return { url, pid: child.pid, ask, stop };
    await sleep(50);
  }
  await stop();
  throw new Error(`A server of the bench did not start: ${complaint}`);
}
