import { z } from "zod";
import { anthropicCosts, defaultWorkspace } from "./provider-costs/anthropic-costs.ts";
import { commonUsage, runImport } from "./provider-costs/command.ts";
import { openAiCosts } from "./provider-costs/openai-costs.ts";

/**
 * `npm run gatehouse -- import-costs …`: imports a provider's costs, from files or from the provider's API if its name
 * comes first.
 */
const [source = ""] = process.argv.slice(2);
const account = /^[A-Za-z0-9._:-]{1,96}$/;
switch (source) {
  case "openai":
    // Each command reads its arguments after the script's name.
    process.argv.splice(2, 1);
    await runImport({
      usage: `npm run gatehouse -- import-costs openai --project <proj_…> [--project …]
  [--from <day>] [--to <day>] [--state <file>]

Imports a project's daily totals from OpenAI. Name only projects that the app has for itself: a day's
total replaces that day's runs of the account.
${commonUsage}
OPENAI_ADMIN_KEY, OPENAI_BASE_URL (https://api.openai.com/v1).`,
      provider: "openai",
      accountOption: "project",
      account: z.string().regex(account, "name a project by its id, proj_…"),
      environment: z.object({
        OPENAI_ADMIN_KEY: z.string("is not set: create an admin key in OpenAI's settings").min(1, "is empty"),
        OPENAI_BASE_URL: z.url().default("https://api.openai.com/v1"),
      }),
      report: ({ OPENAI_BASE_URL, OPENAI_ADMIN_KEY }) =>
        openAiCosts({ baseUrl: OPENAI_BASE_URL, adminKey: OPENAI_ADMIN_KEY }),
    });
    break;
  case "anthropic":
    process.argv.splice(2, 1);
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
      account: z.string().regex(account, `name a workspace by its id, wrkspc_…, or ${defaultWorkspace}`),
      environment: z.object({
        ANTHROPIC_ADMIN_KEY: z.string("is not set: create an admin key in Anthropic's Console").min(1, "is empty"),
        ANTHROPIC_BASE_URL: z.url().default("https://api.anthropic.com"),
      }),
      report: ({ ANTHROPIC_BASE_URL, ANTHROPIC_ADMIN_KEY }) =>
        anthropicCosts({ baseUrl: ANTHROPIC_BASE_URL, adminKey: ANTHROPIC_ADMIN_KEY }),
    });
    break;
  default:
    await import("./provider-costs/import-cost-files.ts");
}
