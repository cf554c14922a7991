import { runtime } from "./deno-api.ts";
import { functionsFolder, stopLimitMs } from "./host.ts";

/** The delay between the last change and the restart. Editors write a file in several steps. */
const quietMs = 100;

type RunningWorker = { worker: Worker; exited: Promise<void> };

/** Serves the functions from a worker that is replaced whenever a file below their folder changes. */
export function startReloadingHost(): { stop: () => Promise<void> } {
  let current = startWorker();
  let replacing = Promise.resolve();

  async function watch(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    for await (const { kind } of runtime.Deno.watchFs(functionsFolder)) {
      if (kind === "access") continue;
      clearTimeout(timer);
      timer = setTimeout(replace, quietMs);
    }
  }

  function replace(): void {
    replacing = replacing.then(async () => {
      await stopWorker(current);
      current = startWorker();
    });
  }

  watch().catch((error) => console.error("The functions are no longer watched for changes:", error));
  return { stop: () => replacing.then(() => stopWorker(current)) };
}

function startWorker(): RunningWorker {
  const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
  const exited = new Promise<void>((resolve) => {
    worker.addEventListener("message", () => resolve());
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      console.error("The functions' worker failed:", event.message);
      resolve();
    });
  });
  return { worker, exited };
}

async function stopWorker({ worker, exited }: RunningWorker): Promise<void> {
  worker.postMessage("stop");
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, stopLimitMs);
  });
  await Promise.race([exited, limit]);
  clearTimeout(timer);
  worker.terminate();
}
