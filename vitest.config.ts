import { availableParallelism } from "node:os";
import path from "node:path";
import { configDefaults, defineConfig } from "vitest/config";
import { sdkFolder, sdkPackages } from "./scripts/clients/sdks/packages.ts";
import { installedFolder } from "./scripts/install.ts";
import { busyTests, hostedTests, tierTests } from "./scripts/test/parts.ts";
import { measureSlowness } from "./scripts/test/processor-time.ts";

const { sql, contract, integration, fault, fuzz, sdks } = tierTests;
/** Generated files, and the tests that `npm test` leaves out. */
const exclude = [
  ...configDefaults.exclude,
  ...["build/**", ".local/**"],
  ...(process.env.EXCLUDED_TESTS ?? "").split("\n").filter((file) => file !== ""),
];
const globalSetup = ["scripts/test/global-setup.ts"];
/** Failures show whole values, because a failure on another machine can often be explained only by them. */
const chaiConfig = { truncateThreshold: 0 };
const slowness = measureSlowness();
const isSlow = slowness > 1.25 && availableParallelism() <= 2;

/**
 * One project per tier of tests, and two for integration tests. All but `unit` and `fault` need a stack, which the
 * global setup starts if none is given.
 */
export default defineConfig({
  test: {
    tags: [
      {
        name: "needs-stack-server",
        // leaving-clients.integration.test.ts covers the charges of clients that disconnect from the other servers.
        description:
          "Passes only with the stack's own server, which notices a disconnecting client immediately. Deno's server " +
          "notices it only sometimes, and hosted Supabase's only at the next write. Deno's servers also reset a " +
          "connection whose body they did not read, before the stack's gateway has received the response.",
      },
    ],
    projects: [
      {
        test: {
          name: "unit",
          chaiConfig,
          include: ["**/*.test.{ts,tsx}"],
          exclude: [...exclude, sql, contract, integration, fault, fuzz, sdks],
          maxWorkers: 2,
          testTimeout: 60_000,
          // Half of the processor time would otherwise go into starting a process per file and loading the same modules
          // again.
          isolate: false,
        },
      },
      {
        test: {
          name: "sql",
          chaiConfig,
          include: [sql],
          exclude: [...exclude, integration],
          globalSetup,
          // Concurrent callers in a test wait for each other's locks and for processor time.
          testTimeout: 60_000,
          maxWorkers: 2,
          // Files can share a process, because each file has its own connection and transactions.
          isolate: false,
        },
      },
      {
        test: {
          name: "contract",
          chaiConfig,
          include: [contract],
          exclude,
          globalSetup: ["packages/local-stack/contract/support/global-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // These tests mostly wait for emails and timers, and use little processor time.
          maxWorkers: 3,
          // Files can share a process, because they share only clients, such as the database pool. Loading the clients
          // again for each file would be slow.
          isolate: false,
        },
      },
      {
        test: {
          name: "integration",
          chaiConfig,
          include: [integration],
          exclude: [...exclude, ...busyTests],
          globalSetup,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // These tests mostly wait for the stack and for timers. With four workers, three of them are often waiting at
          // the same time. On a slow machine they wait less, and with two slow cores, more than one worker makes the
          // stack exceed its servers' time limits.
          maxWorkers: isSlow ? 1 : Math.max(2, Math.round(5 / slowness)),
          // Files can share a process, because no file leaves state behind. Loading the clients again for each file
          // would be slow.
          isolate: false,
          expect: { poll: { timeout: 20_000 } },
        },
      },
      {
        test: {
          name: "integration-busy",
          chaiConfig,
          include: [...busyTests],
          exclude,
          globalSetup,
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // One for each core.
          maxWorkers: 2,
          maxConcurrency: 2,
          sequence: { groupOrder: 1 },
          isolate: false,
          expect: { poll: { timeout: 20_000 } },
        },
      },
      { test: { name: "fuzz", chaiConfig, include: [fuzz], exclude, globalSetup, testTimeout: 60_000 } },
      {
        // Imports of the SDKs resolve below .local/, where the global setup installs them.
        resolve: {
          alias: Object.keys(sdkPackages).map((name) => ({
            find: new RegExp(`^${name}$`),
            replacement: path.join(installedFolder(import.meta.dirname, sdkFolder), "node_modules", name),
          })),
        },
        test: {
          name: "sdks",
          chaiConfig,
          include: [sdks],
          exclude,
          globalSetup: ["scripts/clients/sdks/global-setup.ts"],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: "hosted",
          chaiConfig,
          include: [...hostedTests],
          exclude,
          globalSetup: ["scripts/test/global-setup.ts"],
          env: { LOCAL_DENO: "deno-hosted" },
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: { poll: { timeout: 20_000 } },
        },
      },
      {
        test: {
          name: "fault",
          chaiConfig,
          include: [fault],
          exclude,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Two files can run at the same time, because each breaks only its own stacks.
          maxWorkers: 2,
        },
      },
    ],
  },
});
