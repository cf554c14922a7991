import { parentPort, workerData } from "node:worker_threads";
import { comparePriceFiles } from "./admin/prices/compare-files.ts";
import { readBill } from "./studio/costs/cost-import/read-bill.ts";

/** The tasks that `runInWorker` runs: work whose size the sender of a request chooses. */
const tasks = { readBill, comparePriceFiles } as const;

const { task, input } = workerData as { task: keyof typeof tasks; input: never };
parentPort?.postMessage(await tasks[task](input));
