import { configDefaults, defineConfig } from "vitest/config";

const generated = [...configDefaults.exclude, "build/**", ".local/**"];
const sql = "supabase/tests/**/*.test.ts";
const contract = "scripts/local-stack/contract/**/*.test.ts";
const integration = "**/*.integration.test.ts";
const fault = "**/*.fault.test.ts";
const fuzz = "**/*.fuzz.test.ts";
const globalSetup = ["scripts/test/global-setup.ts"];

/** One project a tier. All but `unit` and `fault` need a stack, which the global setup starts where none is named. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["**/*.test.{ts,tsx}"],
          exclude: [...generated, sql, contract, integration, fault, fuzz],
          maxWorkers: 2,
          testTimeout: 20_000,
          // To start a process a file, and to load in it what the others have, is half of their processor time.
          isolate: false,
        },
      },
      {
        test: {
          name: "sql",
          include: [sql],
          exclude: generated,
          globalSetup,
          // Many callers at once wait for each other, and for the processors.
          testTimeout: 20_000,
          maxWorkers: 2,
          // Each of its files has a connection and its transactions to itself.
          isolate: false,
        },
      },
      {
        test: {
          name: "contract",
          include: [contract],
          exclude: generated,
          globalSetup: ["scripts/local-stack/contract/support/global-setup.ts"],
          testTimeout: 20_000,
          hookTimeout: 30_000,
          // They wait for mails and for the clock more than they work.
          maxWorkers: 3,
          // Its files share only clients, which would be slow to load again for each file.
          isolate: false,
        },
      },
      {
        test: {
          name: "integration",
          include: [integration],
          exclude: generated,
          globalSetup,
          testTimeout: 30_000,
          hookTimeout: 30_000,
          // They wait for the stack and for the clock more than they work: of four, too often three wait at once.
          maxWorkers: 5,
          // As in contract. No file leaves anything behind in its module's state, its environment or its clients.
          isolate: false,
          expect: { poll: { timeout: 10_000 } },
        },
      },
      { test: { name: "fuzz", include: [fuzz], exclude: generated, globalSetup } },
      {
        test: {
          name: "fault",
          include: [fault],
          exclude: generated,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Each file breaks stacks of its own alone, and waits for what comes back.
          maxWorkers: 2,
        },
      },
    ],
  },
});
