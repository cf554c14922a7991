import { z } from "zod";
import { commonUsage, runImport } from "./command.ts";
import { openAiCosts } from "./openai-costs.ts";

await runImport({
  usage: `npm run gatehouse -- import-costs openai --project <proj_…> [--project …]
  [--from <day>] [--to <day>] [--state <file>]

Imports a project's daily totals from OpenAI. Name only projects that the app has for itself: a day's
total replaces that day's runs of the account.
${commonUsage}
OPENAI_ADMIN_KEY, OPENAI_BASE_URL (https://api.openai.com/v1).`,
  provider: "openai",
  accountOption: "project",
  account: z.string().regex(/^[A-Za-z0-9._:-]{1,96}$/, "name a project by its id, proj_…"),
  environment: z.object({
    OPENAI_ADMIN_KEY: z.string("is not set: create an admin key in OpenAI's settings").min(1, "is empty"),
    OPENAI_BASE_URL: z.url().default("https://api.openai.com/v1"),
  }),
  report: ({ OPENAI_BASE_URL, OPENAI_ADMIN_KEY }) =>
    openAiCosts({ baseUrl: OPENAI_BASE_URL, adminKey: OPENAI_ADMIN_KEY }),
});
