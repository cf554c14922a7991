import type { RequestListener } from "node:http";
import { isIP } from "node:net";

/** The secret that the verifiers expect. */
export const captchaSecret = "captcha-secret";

/**
 * Bot challenge verifiers. Each accepts the token "good" if the request has the secret and an IP address. The token
 * "down" closes the connection.
 */
export function captchaVerifiers(): Record<string, RequestListener> {
  const at =
    (path: string): RequestListener =>
    (request, response) => {
      let form = "";
      request.on("data", (chunk) => {
        form += chunk;
      });
      request.on("end", () => {
        const fields = new URLSearchParams(form);
        const token = fields.get("response");
        if (token === "down") return request.socket.destroy();
        const codes = [
          ...(request.url === path ? [] : ["bad-request"]),
          ...(fields.get("secret") === captchaSecret ? [] : ["invalid-input-secret"]),
          ...(isIP(fields.get("remoteip") ?? "") ? [] : ["missing-remoteip"]),
          ...(token === "good" ? [] : ["invalid-input-response", "bad-luck"]),
        ];
        response.setHeader("Content-Type", "application/json");
        response.end(JSON.stringify({ success: codes.length === 0, "error-codes": codes }));
      });
    };
  return {
    "challenges.cloudflare.com": at("/turnstile/v0/siteverify"),
    "hcaptcha.com": at("/siteverify"),
  };
}
