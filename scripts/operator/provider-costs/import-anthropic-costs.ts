import { z } from "zod";
import { anthropicCosts, defaultWorkspace } from "./anthropic-costs.ts";
import { commonUsage, runImport } from "./command.ts";

await runImport({
  usage: `npm run gatehouse -- import-costs anthropic --workspace <wrkspc_…> [--workspace …]
  [--from <day>] [--to <day>] [--state <file>]

Imports a workspace's daily totals from Anthropic; --workspace ${defaultWorkspace} is the default workspace. Name only
workspaces that the app has for itself: a day's total replaces that day's runs of the account. Anthropic's report
leaves out Priority Tier.
${commonUsage}
ANTHROPIC_ADMIN_KEY (sk-ant-admin…), ANTHROPIC_BASE_URL (https://api.anthropic.com).`,
  provider: "anthropic",
  accountOption: "workspace",
  account: z.string().regex(/^[A-Za-z0-9._:-]{1,96}$/, `name a workspace by its id, wrkspc_…, or ${defaultWorkspace}`),
  environment: z.object({
    ANTHROPIC_ADMIN_KEY: z.string("is not set: create an admin key in Anthropic's Console").min(1, "is empty"),
    ANTHROPIC_BASE_URL: z.url().default("https://api.anthropic.com"),
  }),
  report: ({ ANTHROPIC_BASE_URL, ANTHROPIC_ADMIN_KEY }) =>
    anthropicCosts({ baseUrl: ANTHROPIC_BASE_URL, adminKey: ANTHROPIC_ADMIN_KEY }),
});
