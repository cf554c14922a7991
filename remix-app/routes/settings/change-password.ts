import { redirect } from "@remix-run/node";

/**
 * The URL where password managers look for the page that changes a password (W3C, A Well-Known URL for Changing
 * Passwords).
 */
export function loader() {
  return redirect("/settings/security/password");
}
