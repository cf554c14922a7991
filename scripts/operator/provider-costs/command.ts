import { parseArgs } from "node:util";
import { z } from "zod";
import { helpWhereAsked } from "../../help.ts";
import { createProgress } from "../../load/progress.ts";
import { fileBookmarks } from "./bookmarks.ts";
import { importDailyCosts } from "./import-daily-costs.ts";
import type { CostReport } from "./read-days.ts";

const day = z.iso.date("write a day as 2026-01-31");
const gateway = z.object({
  GATEHOUSE_AI_URL: z.url("is not the address of the gateway, …/v1"),
  GATEHOUSE_AI_KEY: z
    .string("is not set: create a key that is bound to the app")
    .startsWith("ttr_ai_", "is not a ttr_ai_ key"),
  GATEHOUSE_WORKSPACE_ID: z.uuid("is not the id of a workspace"),
});

/** The part of the usage text shared by commands that import daily costs. */
export const commonUsage = `
Days are UTC; --to is the day after the last, by default today. Without --from it continues where it stopped, and reads
the last days again, which the provider may have corrected.

Environment: GATEHOUSE_AI_URL (…/v1), GATEHOUSE_AI_KEY (a key bound to the app), GATEHOUSE_WORKSPACE_ID, and`;

/** Runs a command that imports a provider's daily costs: reads its options and environment, and prints the result. */
export async function runImport<Environment extends z.ZodObject>({
  usage,
  provider,
  accountOption,
  account,
  environment,
  report,
}: {
  usage: string;
  provider: string;
  /** The option that names an account, such as "project". */
  accountOption: string;
  account: z.ZodType<string>;
  environment: Environment;
  report: (env: z.output<Environment>) => CostReport;
}): Promise<void> {
  helpWhereAsked(usage);
  const read = <Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> => {
    const parsed = schema.safeParse(value);
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    throw new Error(`${issue?.path.join(".")}: ${issue?.message}.\n\n${usage}`);
  };
  try {
    const { values } = parseArgs({
      options: {
        [accountOption]: { type: "string", multiple: true },
        from: { type: "string" },
        to: { type: "string" },
        state: { type: "string" },
      },
    });
    const args = read(
      z.object({
        [accountOption]: z.array(account, `name at least one, as --${accountOption} …`),
        from: day.optional(),
        to: day.default(new Date().toISOString().slice(0, 10)),
        state: z.string().min(1).default(`.local/${provider}-costs.json`),
      }),
      values,
    );
    const accounts = z.array(z.string()).parse(args[accountOption]);
    const { from, to, state } = z
      .object({ from: z.string().optional(), to: z.string(), state: z.string() })
      .parse(args);
    const env = read(environment, process.env);
    const { GATEHOUSE_AI_URL, GATEHOUSE_AI_KEY, GATEHOUSE_WORKSPACE_ID } = read(gateway, process.env);
    if (from !== undefined && from >= to) throw new Error("--from must be before --to.");
    const bars = new Map<string, (done: number) => void>();
    const { outcomes, unread } = await importDailyCosts({
      report: report(env),
      provider,
      gateway: { baseUrl: GATEHOUSE_AI_URL, key: GATEHOUSE_AI_KEY, workspaceId: GATEHOUSE_WORKSPACE_ID },
      accounts,
      from,
      to,
      bookmarks: fileBookmarks(state, { scope: `${GATEHOUSE_AI_URL} ${GATEHOUSE_WORKSPACE_ID}` }),
      progress(name, { done, total }) {
        const show = bars.get(name) ?? createProgress({ label: `${name}: days`, total }, process.stderr);
        bars.set(name, show);
        show(done);
      },
    });
    const counts = Object.entries(outcomes).map(([outcome, days]) => `${days} ${outcome}`);
    console.log(`Days imported: ${counts.join(", ") || "none, as there are no costs"}.`);
    for (const { account: name, from: first } of unread) {
      console.log(`${name}: not answered from ${first} on. The next run asks for these days again.`);
    }
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exitCode = 1;
  }
}
