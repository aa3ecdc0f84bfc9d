/* The floor of a program: it starts and ends. */
int main(void) { return 0; }
