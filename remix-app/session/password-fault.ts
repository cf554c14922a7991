import { createHash } from "node:crypto";
import type { AppLoadContext } from "@remix-run/node";
import { dictionary } from "@zxcvbn-ts/language-common";
import { logWarning } from "#shared/log.ts";

const commonPasswords = new Set(dictionary["passwords-common"]);
/** Shorter parts of an email or name appear in too many good passwords. */
const minWordLength = 4;
const breachTimeoutMs = 1_500;

const easyToGuess = "Choose a password that’s harder to guess, such as three or four unrelated words.";
const breached = "This password is in a list of stolen passwords. Choose another one.";

export interface NewPassword {
  password: string;
  email: string | null;
  name?: string | null;
}

/**
 * Returns why a new password is rejected, as one sentence for its field, or null. Rejects common passwords, the
 * product's name, the person's own email or name, and passwords known from a breach (NIST SP 800-63B, section 3.1.1.2).
 * If the list of breached passwords is unreachable, the password is accepted and the failure is logged.
 */
export async function findPasswordFault(context: AppLoadContext, candidate: NewPassword): Promise<string | null> {
  if (isEasyToGuess(candidate, { product: context.env.BRAND_NAME })) return easyToGuess;
  return (await isBreached(context, candidate.password)) ? breached : null;
}

/** Returns whether a password is common, or is little more than the product's name or the person's name or email. */
export function isEasyToGuess({ password, email, name }: NewPassword, { product }: { product: string }): boolean {
  const compact = normalize(password).replaceAll(/\s/g, "");
  const bare = compact.replaceAll(/[^\p{L}\p{N}]/gu, "");
  if (new Set(compact).size <= 1 || commonPasswords.has(compact) || commonPasswords.has(bare)) return true;
  const known = [product, email ?? "", email?.split("@")[0] ?? "", name ?? ""].map(normalize);
  if (known.some((text) => bare !== "" && text.replaceAll(/[^\p{L}\p{N}]/gu, "") === bare)) return true;
  const letters = keepLetters(compact);
  const words = known
    .flatMap((text) => [text, ...text.split(/[^\p{L}]+/u)])
    .map(keepLetters)
    .filter((word) => word !== "")
    .sort((one, other) => other.length - one.length);
  // A password that only reorders or repeats these words, or adds digits and symbols to them, is easy to guess.
  return (
    words.some((word) => word.length >= minWordLength && letters.includes(word)) &&
    words.reduce((rest, word) => rest.replaceAll(word, ""), letters) === ""
  );
}

function normalize(text: string): string {
  return text.normalize("NFKC").toLowerCase();
}

function keepLetters(text: string): string {
  return text.replaceAll(/[^\p{L}]/gu, "");
}

/**
 * Requests the hashes with the same prefix, so that the service learns neither the password nor its hash (k-anonymity):
 * https://haveibeenpwned.com/API/v3#SearchingPwnedPasswordsByRange
 */
async function isBreached({ env, requestId }: AppLoadContext, password: string): Promise<boolean> {
  const { BREACHED_PASSWORDS_URL: url } = env;
  if (!url) return false;
  const hash = createHash("sha1").update(password).digest("hex").toUpperCase();
  try {
    const response = await fetch(`${url}/range/${hash.slice(0, 5)}`, {
      // Without padding, the size of the response would reveal the range.
      headers: { "Add-Padding": "true" },
      signal: AbortSignal.timeout(breachTimeoutMs),
    });
    if (!response.ok) throw new Error(`status ${response.status}`);
    // The service pads its response with suffixes whose count is 0.
    return (await response.text()).split("\n").some((line) => {
      const [suffix, count] = line.trim().split(":");
      return suffix?.toUpperCase() === hash.slice(5) && Number(count) > 0;
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : "unknown failure";
    logWarning(`a password was not checked against stolen ones: ${why}`, { requestId });
    return false;
  }
}
