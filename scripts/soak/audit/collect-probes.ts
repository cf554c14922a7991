import { openBrowser } from "../../../remix-app/testing/browser.ts";
import { paths } from "../../test/apps.ts";
import { createPerson } from "../../test/people.ts";
import type { World } from "../world.ts";
import type { Probe } from "./verdict.ts";

/** Checks as a new user that signing in, cross-app tokens, satellites, chats and streams work. */
export async function probeAll(world: World): Promise<Probe[]> {
  const { base, ai, satellites } = world.stack;
  const person = await createPerson();
  const browser = openBrowser(base);
  const login = await browser.post("/login", { email: person.email, password: person.password, returnUrl: "" });
  const session = await browser.get("/api/v1/auth/session");
  const token = await browser.postJson(paths.mint, { targetApp: world.satellite.name });
  const probes: Probe[] = [
    { what: "a sign-in", expected: 302, status: login.status, detail: login.words },
    { what: "a session", expected: 200, status: session.status, detail: session.text },
    { what: "a cross-app token", expected: 201, status: token.status, detail: token.status === 201 ? "" : token.text },
  ];
  for (const { name, url } of satellites) {
    const home = await fetch(url);
    probes.push({ what: `the satellite ${name}`, expected: 200, status: home.status, detail: "" });
  }
  for (const { key } of [world.payer, world.partner]) {
    for (const stream of [false, true]) {
      const response = await fetch(`${ai}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify({ model: "demo-chat", stream, messages: [{ role: "user", content: "Still there?" }] }),
      });
      const text = await response.text();
      const whole = !stream || text.trimEnd().endsWith("data: [DONE]");
      probes.push({
        what: stream ? "a stream" : "a chat",
        expected: 200,
        status: whole ? response.status : 0,
        detail: text.slice(-200),
      });
    }
  }
  return probes;
}
