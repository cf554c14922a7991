import express from "express";
import session from "express-session";
import passport from "passport";
import { Strategy } from "passport-openidconnect";

const { CLIENT_ID, CLIENT_SECRET, ISSUER, PORT = "3000", SESSION_SECRET } = process.env;

// The settings of passport-openidconnect's README. It has no PKCE.
passport.use(
  new Strategy(
    {
      issuer: ISSUER,
      authorizationURL: `${ISSUER}/oauth/authorize`,
      tokenURL: `${ISSUER}/oauth/token`,
      userInfoURL: `${ISSUER}/oauth/userinfo`,
      clientID: CLIENT_ID,
      clientSecret: CLIENT_SECRET,
      callbackURL: `http://127.0.0.1:${PORT}/oauth2/redirect`,
      scope: ["profile", "email"],
    },
    (_issuer, profile, done) => done(null, { email: profile.emails[0].value }),
  ),
);
passport.serializeUser((user, done) => done(null, user));
passport.deserializeUser((user, done) => done(null, user));

const app = express();
app.use(session({ secret: SESSION_SECRET, resave: false, saveUninitialized: false }));
app.use(passport.session());
app.get("/login", passport.authenticate("openidconnect"));
app.get("/oauth2/redirect", passport.authenticate("openidconnect", { successRedirect: "/", failWithError: true }));
app.get("/logout", (req, res, next) => req.logout((error) => (error ? next(error) : res.redirect("/"))));
app.get("/", (req, res) =>
  res.send(req.user ? `Hello ${req.user.email}! <a href="/logout">Sign out</a>` : "Hello World!"),
);
app.listen(Number(PORT), "127.0.0.1");
