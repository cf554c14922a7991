import { press, type Scene } from "../define-states.ts";

/** Compares the demo models' prices with two files. */
export async function comparePrices({ page }: Scene): Promise<void> {
  const liteLlm = {
    "demo-chat": {
      litellm_provider: "openai",
      input_cost_per_token: 2.5e-6,
      cache_read_input_token_cost: 2.5e-7,
      output_cost_per_token: 1e-5,
      input_cost_per_token_priority: 4.25e-6,
      output_cost_per_token_priority: 1.7e-5,
      search_context_cost_per_query: { search_context_size_low: 0.03, search_context_size_high: 0.05 },
    },
  };
  const cost = { input: 2, cache_read: 0.49299999999999994, output: 10 };
  const modelsDev = { openai: { models: { "demo-chat": { cost } } } };
  await page.getByLabel("Price file", { exact: true }).setInputFiles(file("api.json", modelsDev));
  await page.getByLabel("Second price file").setInputFiles(file("model_prices.json", liteLlm));
  await press(page, "Compare prices");
  await page.getByRole("heading", { name: "Choose prices" }).waitFor();
}

const file = (name: string, json: object) => ({
  name,
  mimeType: "application/json",
  buffer: Buffer.from(JSON.stringify(json)),
});
