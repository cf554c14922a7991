import { createHash } from "node:crypto";
import type { Account } from "oidc-provider";
import { z } from "zod";

const maxPeople = 1_000;

export type Email = { email: string; verified: boolean };
export type Person = Email & {
  name: string;
  /** Further emails, which only GitHub returns. */
  others: readonly Email[];
};

/** Predefined people, for cases that typing an email cannot produce. */
export const demoPeople: ReadonlyMap<string, Person> = new Map([
  ["verified", { name: "Ada Verified", email: "ada@people.example.test", verified: true, others: [] }],
  ["unverified", { name: "Una Unverified", email: "una@people.example.test", verified: false, others: [] }],
  [
    "many",
    {
      name: "Max Many",
      email: "max@people.example.test",
      verified: true,
      others: [
        { email: "max@work.example.test", verified: true },
        { email: "max@old.example.test", verified: false },
      ],
    },
  ],
]);

/** A sign-in form with a typed email. */
export const signInForm = z
  .object({
    email: z
      .string()
      .trim()
      .toLowerCase()
      .pipe(z.email({ error: "Enter an address such as name@example.com" })),
    verified: z
      .literal("on")
      .optional()
      .transform((value) => value === "on"),
  })
  .transform((person): Person => ({ ...person, name: person.email.split("@")[0] ?? "", others: [] }));

/**
 * Keeps the people who signed in recently. Each subject is derived from the email, so that it is the same after a
 * restart.
 */
export function rememberPeople(provider: string) {
  const people = new Map<string, Person>();
  const introduced = new Set<string>();
  const digest = (email: string) =>
    createHash("sha256")
      .update(provider + email)
      .digest();
  return {
    /** @returns the person's subject */
    admit(person: Person): string {
      const subject = digest(person.email).toString("base64url").slice(0, 24);
      people.delete(subject);
      people.set(subject, person);
      const [oldest] = people.keys();
      if (people.size > maxPeople && oldest !== undefined) {
        people.delete(oldest);
        introduced.delete(oldest);
      }
      return subject;
    },
    /** @returns whether this is the first call for the subject */
    introduce(subject: string): boolean {
      const isNew = !introduced.has(subject);
      introduced.add(subject);
      return isNew;
    },
    find: (subject: string): Person | undefined => people.get(subject),
    /** Derives a numeric id, because GitHub's ids are numbers. Any JSON parser can read its 48 bits exactly. */
    numberOf: ({ email }: Person): number => digest(email).readUIntBE(0, 6),
  };
}

export type People = ReturnType<typeof rememberPeople>;

/** Returns a person's OpenID claims. */
export function accountOf(subject: string, { email, verified, name }: Person): Account {
  return {
    accountId: subject,
    claims: () => ({ sub: subject, email, email_verified: verified, name, preferred_username: email }),
  };
}
