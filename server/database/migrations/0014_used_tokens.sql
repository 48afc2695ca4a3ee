CREATE TABLE "used_tokens" (
	"hash" text PRIMARY KEY NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "used_tokens_expires" ON "used_tokens" USING btree ("expires_at");