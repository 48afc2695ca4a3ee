ALTER TABLE "connections" ADD COLUMN "check_at" timestamp with time zone DEFAULT now() + random() * interval '1 day' NOT NULL;--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "check_asked" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "connections_check" ON "connections" USING btree ("check_asked","check_at");