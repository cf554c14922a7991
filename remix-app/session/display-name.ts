import { z } from "zod";
import { isReadable } from "../http/readable.ts";

const maxNameCharacters = 80;

/** A person's name as others see it. */
export const displayNameSchema = z
  .string({ error: "Enter a name." })
  .transform((name) => name.normalize("NFC").replaceAll(/\s+/g, " ").trim())
  .pipe(
    z
      .string()
      .min(1, "Enter a name.")
      .refine(
        (name) => [...name].length <= maxNameCharacters,
        `Enter a name of at most ${maxNameCharacters} characters.`,
      )
      .refine(isReadable, "Enter a name without invisible characters."),
  );
