/**
 * `npm run gatehouse -- import-costs …`: imports a provider's costs, from files or from the provider's API if its name
 * comes first.
 */
const [source = ""] = process.argv.slice(2);
if (source === "openai" || source === "anthropic") process.argv.splice(2, 1);
if (source === "openai") await import("./provider-costs/import-openai-costs.ts");
else if (source === "anthropic") await import("./provider-costs/import-anthropic-costs.ts");
else await import("./provider-costs/import-cost-files.ts");

export {};
