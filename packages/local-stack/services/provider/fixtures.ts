import { readdirSync, readFileSync } from "node:fs";
import { z } from "zod";
import { parseExactJson } from "../../../../supabase/functions/_shared/exact-json.ts";

/** USD per million tokens, used to calculate the fixtures' amounts. */
export const fixturePrices = {
  input: "2",
  cached_input: "0.2",
  cache_write: "2.5",
  cache_write_1h: "4",
  output: "8",
  audio_input: "40",
} as const;

const json = z.record(z.string(), z.unknown());
const fixtureSchema = z.strictObject({
  source: z.array(z.url()).min(1),
  note: z.string().optional(),
  surface: z.enum(["chat", "responses", "messages", "embeddings", "gemini"]).default("chat"),
  status: z.number().default(200),
  answer: z.union([json, z.array(z.unknown())]).optional(),
  events: z.array(json).optional(),
  /** Whether `[DONE]` ends the stream. */
  done: z.boolean().default(true),
  /** The usage that the response reports; null if it reports none. */
  states: z
    .strictObject({
      counts: z.record(z.string(), z.number()).optional(),
      usd: z.string().optional(),
      stated_cost_usd: z.string().optional(),
      served_tier: z.string().optional(),
    })
    .nullable(),
});

/** A provider's recorded response, with its source and reported usage. `text` is what the provider sends. */
export type ProviderFixture = z.infer<typeof fixtureSchema> & {
  kind: string;
  case: string;
  name: string;
  text: string;
};

export const fixtureFolder = new URL("../../../../supabase/functions/_gateway/providers/fixtures/", import.meta.url);

/** Reads every fixture, by kind and case. */
export function readProviderFixtures(): ProviderFixture[] {
  const kinds = readdirSync(fixtureFolder, { withFileTypes: true }).filter((each) => each.isDirectory());
  return kinds.flatMap(({ name }) =>
    readdirSync(new URL(`${name}/`, fixtureFolder)).map((file) =>
      readFixture(`${name}/${file.replace(/\.json$/, "")}`),
    ),
  );
}

/** Reads one fixture by its name, `<kind>/<case>`. */
export function readFixture(name: string): ProviderFixture {
  const [kind = "", one = ""] = name.split("/");
  const text = readFileSync(new URL(`${name}.json`, fixtureFolder), "utf8");
  const fixture = fixtureSchema.parse(parseExactJson(text, (name) => /(?:^|_)cost$/.test(name)));
  return { ...fixture, kind, case: one, name, text: sentText(fixture) };
}

function sentText({ answer, events = [], surface, done }: z.infer<typeof fixtureSchema>): string {
  if (answer) return JSON.stringify(answer);
  const named = (event: Record<string, unknown>) => (surface === "chat" ? "" : `event: ${event.type}\n`);
  const sent = events.map((event) => `${named(event)}data: ${JSON.stringify(event)}\n\n`);
  return sent.join("") + (done ? "data: [DONE]\n\n" : "");
}
