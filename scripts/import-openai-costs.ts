import { parseArgs } from "node:util";
import { z } from "zod";
import { createProgress } from "./load/progress.ts";
import { fileBookmarks } from "./provider-costs/bookmarks.ts";
import { importOpenAiCosts } from "./provider-costs/import-openai-costs.ts";

const usage = `npm run import-openai-costs -- --project <proj_…> [--project …] [--from <day>] [--to <day>] [--state <file>]

Imports a project's daily costs from OpenAI as account days. Name projects that the app has for itself alone: a day's
total stands for that day's runs of the account. Days are UTC; --to is the day after the last, by default today.
Without --from it goes on where it was, and reads the last days again, which OpenAI may have corrected.

Environment: OPENAI_ADMIN_KEY, OPENAI_BASE_URL (https://api.openai.com/v1), GATEHOUSE_AI_URL (…/v1), GATEHOUSE_AI_KEY (a
key bound to the app), GATEHOUSE_WORKSPACE_ID.`;

const day = z.iso.date("days are written as 2026-01-31");
const options = z.object({
  project: z.array(
    z.string().regex(/^[A-Za-z0-9._:-]{1,96}$/, "a project is named by its id, proj_…"),
    "name one at least, as --project proj_…",
  ),
  from: day.optional(),
  to: day.default(new Date().toISOString().slice(0, 10)),
  state: z.string().min(1).default(".local/openai-costs.json"),
});
const environment = z.object({
  OPENAI_ADMIN_KEY: z.string("is not set: make an admin key in OpenAI's settings").min(1, "is empty"),
  OPENAI_BASE_URL: z.url().default("https://api.openai.com/v1"),
  GATEHOUSE_AI_URL: z.url("is not the address of the gateway, …/v1"),
  GATEHOUSE_AI_KEY: z
    .string("is not set: make a key that is bound to the app")
    .startsWith("ttr_ai_", "is no ttr_ai_ key"),
  GATEHOUSE_WORKSPACE_ID: z.uuid("is not the id of a workspace"),
});

try {
  const { values } = parseArgs({
    options: {
      project: { type: "string", multiple: true },
      from: { type: "string" },
      to: { type: "string" },
      state: { type: "string" },
    },
  });
  const asked = read(options, values);
  const env = read(environment, process.env);
  if (asked.from !== undefined && asked.from >= asked.to) throw new Error("--from must be before --to.");
  const bars = new Map<string, (done: number) => void>();
  const outcomes = await importOpenAiCosts({
    costs: { baseUrl: env.OPENAI_BASE_URL, adminKey: env.OPENAI_ADMIN_KEY },
    gateway: { baseUrl: env.GATEHOUSE_AI_URL, key: env.GATEHOUSE_AI_KEY, workspaceId: env.GATEHOUSE_WORKSPACE_ID },
    projects: asked.project,
    from: asked.from,
    to: asked.to,
    bookmarks: fileBookmarks(asked.state, { scope: `${env.GATEHOUSE_AI_URL} ${env.GATEHOUSE_WORKSPACE_ID}` }),
    progress(project, { done, total }) {
      const show = bars.get(project) ?? createProgress({ label: `${project}: days`, total }, process.stderr);
      bars.set(project, show);
      show(done);
    },
  });
  const said = Object.entries(outcomes).map(([outcome, days]) => `${days} ${outcome}`);
  console.log(`Days imported: ${said.join(", ") || "none, as there are no costs"}.`);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

function read<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  throw new Error(`${issue?.path.join(".")}: ${issue?.message}.\n\n${usage}`);
}
