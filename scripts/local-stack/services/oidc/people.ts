import { createHash } from "node:crypto";
import type { Account } from "oidc-provider";
import { z } from "zod";

const maxPeople = 1_000;

export type Email = { email: string; verified: boolean };
export type Person = Email & {
  name: string;
  /** Addresses beside the main one, which GitHub alone tells of. */
  others: readonly Email[];
};

/** People who are there from the start, for what an address typed in cannot show. */
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

/** An address that somebody types in. */
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

/** Who has signed in lately. A subject follows from the address, so that it is the same after a restart. */
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
    /** @returns whether it is the first time that this is asked of someone */
    introduce(subject: string): boolean {
      const isNew = !introduced.has(subject);
      introduced.add(subject);
      return isNew;
    },
    find: (subject: string): Person | undefined => people.get(subject),
    /** A number for a subject, as GitHub has them: 48 bits, which any JSON reader takes. */
    numberOf: ({ email }: Person): number => digest(email).readUIntBE(0, 6),
  };
}

export type People = ReturnType<typeof rememberPeople>;

/** Someone's claims in OpenID's terms. */
export function accountOf(subject: string, { email, verified, name }: Person): Account {
  return {
    accountId: subject,
    claims: () => ({ sub: subject, email, email_verified: verified, name, preferred_username: email }),
  };
}
