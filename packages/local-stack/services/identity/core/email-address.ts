import { invalid } from "./errors.ts";

const maxLength = 255;
const label = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const form = new RegExp(`^[a-zA-Z0-9.!#$%&'*+/=?^_\`{|}~-]+@${label}(?:\\.${label})*$`);

/**
 * Checks an email address by the rules of HTML's email input.
 * @returns the address in lower case
 * @throws AuthError 400 validation_failed
 */
export function parseEmail(email: string): string {
  if (!email) throw invalid("An email address is required");
  if (email.length > maxLength) throw invalid("An email address is too long");
  if (!form.test(email)) throw invalid("Unable to validate email address: invalid format");
  return email.toLowerCase();
}
