import cluster from "node:cluster";
import { setLogFormat } from "#shared/log.ts";

const { NODE_ENV, WEB_PROCESSES } = process.env;
/** Vite's development server has one process. */
const isSingleProcess = NODE_ENV === "development" || Number(WEB_PROCESSES || 1) === 1;

if (cluster.isWorker || isSingleProcess) await import("./serve.ts");
else await superviseProcesses();

/** Checks the settings and starts the processes that serve. This one loads nothing else of the server. */
async function superviseProcesses(): Promise<void> {
  const [{ parseEnv }, { supervise }] = await Promise.all([import("./config/env.server.ts"), import("./supervise.ts")]);
  try {
    const { WEB_PROCESSES: count, LOG_FORMAT } = parseEnv(process.env);
    setLogFormat(LOG_FORMAT);
    supervise(count);
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  }
}
