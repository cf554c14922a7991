import { createHash } from "node:crypto";
import type { Account } from "oidc-provider";
import { z } from "zod";

const maxPeople = 1_000;

/** What the sign-in page's form sends. */
export const signInForm = z.object({
  email: z
    .string()
    .trim()
    .toLowerCase()
    .pipe(z.email({ error: "Enter an address such as name@example.com" })),
  verified: z
    .literal("on")
    .optional()
    .transform((value) => value === "on"),
});

type Person = z.infer<typeof signInForm>;

/** Who has signed in lately. A subject follows from the address, so that it is the same after a restart. */
export function rememberPeople() {
  const people = new Map<string, Person>();
  return {
    /** @returns the person's subject */
    admit(person: Person): string {
      const subject = createHash("sha256").update(person.email).digest("base64url").slice(0, 24);
      people.delete(subject);
      people.set(subject, person);
      const [oldest] = people.keys();
      if (people.size > maxPeople && oldest !== undefined) people.delete(oldest);
      return subject;
    },
    find(subject: string): Account | undefined {
      const person = people.get(subject);
      if (!person) return undefined;
      const { email, verified } = person;
      return {
        accountId: subject,
        claims: () => ({
          sub: subject,
          email,
          email_verified: verified,
          name: email.split("@")[0],
          preferred_username: email,
        }),
      };
    },
  };
}

export type People = ReturnType<typeof rememberPeople>;
