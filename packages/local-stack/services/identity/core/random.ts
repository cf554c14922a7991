import { randomBytes, randomInt, randomUUID } from "node:crypto";

export type Random = {
  bytes: (length: number) => Buffer;
  uuid: () => string;
  /** Returns an integer in [0, below). */
  integer: (below: number) => number;
};

export const systemRandom: Random = { bytes: randomBytes, uuid: randomUUID, integer: (below) => randomInt(below) };

const base32 = "abcdefghijklmnopqrstuvwxyz234567";
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/** Returns a numeric code, possibly with leading zeros. */
export function randomDigits(random: Random, length: number): string {
  return Array.from({ length }, () => random.integer(10)).join("");
}

/** Returns a version 1 refresh token: 12 characters of `[a-z2-7]`, 60 bits. */
export function randomRefreshToken(random: Random): string {
  return Array.from({ length: 12 }, () => base32[random.integer(32)]).join("");
}

/** Returns a random password for an account created without one, with a character from each of `sets`. */
export function randomPassword(random: Random, sets: string[] = []): string {
  const characters = sets.map((set) => set[random.integer(set.length)]);
  while (characters.length < 33) characters.push(alphanumeric[random.integer(alphanumeric.length)]);
  for (let last = characters.length - 1; last > 0; last--) {
    const other = random.integer(last + 1);
    [characters[last], characters[other]] = [characters[other], characters[last]];
  }
  return characters.join("");
}
