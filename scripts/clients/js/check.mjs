export const model = process.env.CLIENT_MODEL;
/** The demo model calls a tool when the prompt asks for it, and then replies with what the tool returned. */
export const sumQuestion = 'What is 17 + 25? Please call add with {"a":17,"b":25}';
/** Returns text for which the demo provider says once that the context window is full. */
export const fullWindow = () => `[[full=${Math.floor(Math.random() * 100_000)}]]`;

/**
 * Runs one check and reports it as a line of JSON on standard output. A failed check does not stop the next one.
 * @param {"plain" | "stream" | "tools" | "structured"} feature the feature that the check covers
 * @param {string} name
 * @param {() => Promise<void>} run throws when the check fails
 */
export async function check(feature, name, run) {
  try {
    await run();
    console.log(JSON.stringify({ check: name, feature, ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ check: name, feature, ok: false, error: String(error?.stack ?? error) }));
  }
}
